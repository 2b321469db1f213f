"""Stream groups: reading as a member, positions, lag and resets."""
