"""Queue groups: who holds which message, what waits for a retry, what is settled."""
