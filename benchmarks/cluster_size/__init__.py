"""What grows with the nodes, units and partitions of a cluster, and how."""
