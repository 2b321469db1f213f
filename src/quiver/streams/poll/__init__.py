"""Polling over HTTP: a member that receives and settles by receipts or by commits."""
