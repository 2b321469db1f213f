"""Moves between logs, each exactly once: an outbox in the journal of the source."""
