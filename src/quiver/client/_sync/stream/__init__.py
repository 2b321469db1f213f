# Generated from quiver/client/_async by scripts/unasync.py: do not edit.
"""Stream groups: membership, messages, commits."""
