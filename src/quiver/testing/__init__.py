"""Fakes for tests, of ours and of users."""
