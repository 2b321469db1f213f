"""Compaction: rewrites closed segments so that only the last value of each key stays."""
