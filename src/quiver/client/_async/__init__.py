"""The SDK as it is written: asynchronous. `quiver.client._sync` is generated from it by scripts/unasync.py."""
