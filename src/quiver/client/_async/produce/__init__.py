"""Producers and the futures they return."""
