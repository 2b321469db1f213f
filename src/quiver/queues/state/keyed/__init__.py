"""Groups ordered by key: one lane per key that has messages in flight."""
