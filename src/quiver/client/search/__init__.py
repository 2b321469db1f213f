"""What both clients share of searches."""
