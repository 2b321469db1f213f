"""Topics whose partitions have several owners."""
