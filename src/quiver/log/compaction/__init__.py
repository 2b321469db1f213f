"""Compaction: closed segments are rewritten so that of each key the last value stays."""
