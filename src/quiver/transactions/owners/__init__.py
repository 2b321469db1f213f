"""Transactions where they touch partitions, groups and leases: at the owners of these."""
