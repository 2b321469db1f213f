"""`quiver cluster`: the workers of a broker."""
