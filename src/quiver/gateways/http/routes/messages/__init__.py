"""Routes of messages."""
