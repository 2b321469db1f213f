# Generated from quiver/client/_async by scripts/unasync.py: do not edit.
"""Readers without a group, and fetching ahead."""
