"""Pushes and acknowledgements that take effect together or not at all."""
