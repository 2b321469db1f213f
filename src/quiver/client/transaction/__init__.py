"""Transactions: states and acks."""
