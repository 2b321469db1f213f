"""Transactions over many partitions: who has one open, and what was decided."""
