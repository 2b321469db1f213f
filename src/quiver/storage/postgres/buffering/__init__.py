"""Publishes while the database is away: kept in a local file, and stored when it is back."""
