"""Batches from routing to their outcome: queues per partition, retries, results."""
