"""Live views in a terminal: `quiver top` and `quiver topic watch`."""
