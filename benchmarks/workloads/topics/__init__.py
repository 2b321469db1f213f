"""What partitions, indexes and compaction cost."""
