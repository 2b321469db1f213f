# Generated from quiver/client/_async by scripts/unasync.py: do not edit.
"""Queue groups: jobs, batches of jobs, workers."""
