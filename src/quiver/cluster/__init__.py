"""Which worker owns what, and which broker runs which worker."""
