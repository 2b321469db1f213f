"""Recurring schedules, which worker 0 has."""
