"""Coordination in etcd, over its JSON gateway."""
