"""Routes of topics."""
