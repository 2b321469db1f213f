"""Dead letters of partitions that other workers own, and redrive jobs."""
