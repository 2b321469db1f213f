"""Groups of both kinds, for people and tools, where owners are several."""
