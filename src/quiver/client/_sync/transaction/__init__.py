# Generated from quiver/client/_async by scripts/unasync.py: do not edit.
"""Transactions of one producer after the other."""
