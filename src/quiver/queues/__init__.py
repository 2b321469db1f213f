"""Queues: receive, settle, leases, retries, order per key."""
