"""Modes for operators: pushes are buffered, pops get nothing."""
