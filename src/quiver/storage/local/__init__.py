"""The engine on segment files."""
