"""Transactions: worker 0 coordinates them, and every worker takes part with what it owns."""
