"""Headers of traces: written as a column, and found among other headers."""
