"""Messages on their way from one log to another, each exactly once."""
