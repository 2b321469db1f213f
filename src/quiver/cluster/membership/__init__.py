"""Brokers that share a store: which of them there are, who decides, and who runs which worker."""
