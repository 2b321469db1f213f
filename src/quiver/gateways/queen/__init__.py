"""Queen's HTTP interface: its queues are topics, its partitions are keys in groups that are ordered by key."""
