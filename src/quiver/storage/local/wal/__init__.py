"""The write-ahead log: one sync for the small appends of many logs (docs/adr/0016-one-sync-for-many-logs.md)."""
