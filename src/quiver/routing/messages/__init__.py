"""Messages of partitions that other workers own."""
