"""Stream groups whose members, commits and partitions have several owners."""
