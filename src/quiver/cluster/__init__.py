"""Which worker owns what."""
