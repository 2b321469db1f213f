"""The audit of the lake: its files against the log."""
