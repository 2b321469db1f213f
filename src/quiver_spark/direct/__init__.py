"""Reading a data directory without its broker."""
