"""Appends to logs in the database: bundled, kept until they are on disk, and settled after an outage."""
