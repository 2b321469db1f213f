"""Metadata that several processes share: watched keys, compare-and-swap, leases."""
