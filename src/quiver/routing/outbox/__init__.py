"""Moves to partitions that other workers own."""
