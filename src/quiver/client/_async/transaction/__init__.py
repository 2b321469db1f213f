"""Transactions and their producers."""
