"""Topics: the catalogue, their settings, their open partitions, compaction and removal."""
