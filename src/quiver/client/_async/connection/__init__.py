"""Connections to a broker, and reconnecting."""
