"""Readers without a group, and fetching ahead."""
