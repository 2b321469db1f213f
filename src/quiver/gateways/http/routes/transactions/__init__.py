"""Routes of transactions."""
