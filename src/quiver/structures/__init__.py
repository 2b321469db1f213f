"""Algorithms and data structures without domain words."""
