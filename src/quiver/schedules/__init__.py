"""Schedules: messages that are sent at recurring times."""
