"""Topics and their settings, and the numbers that must never be given out twice."""
