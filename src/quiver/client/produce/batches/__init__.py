"""Batches from routing to their outcome: queues per partition, retries, what became of each message."""
