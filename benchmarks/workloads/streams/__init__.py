"""Stream groups: consuming, commits, rebalances, many groups."""
