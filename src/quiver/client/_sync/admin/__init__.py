# Generated from quiver/client/_async by scripts/unasync.py: do not edit.
"""Topics, groups, queues, dead letters, delayed messages, schedules, transactions."""
