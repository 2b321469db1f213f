# Generated from quiver/client/_async by scripts/unasync.py: do not edit.
"""Connections to a broker, and reconnecting."""
