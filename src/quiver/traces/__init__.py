"""Traces: what happens to sampled messages is written to the topic `__traces`, after the fact."""
