"""Transactions: states, and the acks they carry."""
