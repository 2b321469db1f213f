"""Transactions of one producer after the other."""
