"""Replicas of logs: one leader per epoch, an in-sync set, a watermark (docs/adr/0036-replication.md)."""
