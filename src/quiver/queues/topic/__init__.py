"""A topic as the queue of a group: who waits, whose turn it is, who holds how much."""
