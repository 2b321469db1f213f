# Generated from quiver/client/_async by scripts/unasync.py: do not edit.
"""The SDK for threads and blocking sockets."""
