"""Routes for those who watch the broker."""
