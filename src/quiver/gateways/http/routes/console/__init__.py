"""The console: pages that a browser gets from the broker."""
