"""Stream groups: membership, messages, commits."""
