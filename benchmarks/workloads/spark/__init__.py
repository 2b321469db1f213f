"""Spark: reading, writing, archiving."""
