"""Polls of groups and partitions with several owners."""
