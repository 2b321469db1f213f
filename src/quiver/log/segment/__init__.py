"""One segment: its frames, its index and what is damaged in it."""
