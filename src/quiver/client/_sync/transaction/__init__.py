# Generated from quiver/client/_async by scripts/unasync.py: do not edit.
"""Transactions and their producers."""
