"""Queries of stream processors and the state that they keep between cycles."""
