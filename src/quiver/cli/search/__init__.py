"""`quiver search`, and messages that fit an expression in batches."""
