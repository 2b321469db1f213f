"""Coordination of worker 0, for the other workers."""
