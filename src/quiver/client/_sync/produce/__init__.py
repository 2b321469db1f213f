# Generated from quiver/client/_async by scripts/unasync.py: do not edit.
"""Producers and the futures they return."""
