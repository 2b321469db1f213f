"""Queues of topics whose partitions have several owners."""
