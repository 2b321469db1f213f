"""Servers: they turn bytes into calls of the broker, and have no logic of their own."""
