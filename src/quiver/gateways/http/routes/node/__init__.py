"""Routes of the node: health, version, documents."""
