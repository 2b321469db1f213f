"""The cluster: its nodes, units, partitions and reassignments. A broker that is alone is the only node of its own."""
