"""Searches and live tails over partitions of several workers."""
