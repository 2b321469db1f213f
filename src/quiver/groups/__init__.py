"""Which groups there are, of both kinds: id, kind, ordering and settings."""
