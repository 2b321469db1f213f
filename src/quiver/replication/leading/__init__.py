"""At the leader of a unit: its logs, a stream of calls to each follower, the in-sync set."""
