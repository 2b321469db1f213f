"""Queue groups: draining, latency, messages that nobody settles."""
