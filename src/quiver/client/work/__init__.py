"""Consuming a queue group: leases, prefetching, settling, workers."""
