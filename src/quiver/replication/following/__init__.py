"""At a follower of a unit: its logs, which are made the same as the leader's."""
