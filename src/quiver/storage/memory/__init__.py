"""The engine in memory."""
