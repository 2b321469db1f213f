"""Who has the replicas of each unit, and how operators change it."""
