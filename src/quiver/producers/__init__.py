"""Ids and epochs of producers."""
