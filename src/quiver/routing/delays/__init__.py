"""Delayed messages of partitions that other workers own."""
