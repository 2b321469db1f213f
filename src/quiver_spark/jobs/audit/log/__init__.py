"""The audit of the log: every stored frame."""
