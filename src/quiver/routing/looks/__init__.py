"""What is only looked at: every worker says what it has, and the one that was asked puts it together."""
