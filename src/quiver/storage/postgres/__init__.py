"""The engine on PostgreSQL."""
