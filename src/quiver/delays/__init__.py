"""Delayed messages: when each is due, and the way into its topic."""
