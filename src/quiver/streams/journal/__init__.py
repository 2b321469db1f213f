"""The journal of stream groups, in shards."""
