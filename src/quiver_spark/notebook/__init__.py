"""Rows as people want to see them: keys and values decoded."""
