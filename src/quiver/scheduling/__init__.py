"""Delayed messages and recurring schedules."""
