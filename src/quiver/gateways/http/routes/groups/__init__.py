"""Routes of groups."""
