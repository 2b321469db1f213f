"""Reading as a member of a stream group: assignment, positions, options."""
