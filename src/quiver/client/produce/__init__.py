"""Sending messages: batches, partitions, retries, outcomes."""
