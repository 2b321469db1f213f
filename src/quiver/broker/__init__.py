"""The broker: its parts put together in a straight line, its life from start to stop, and its health."""
