"""The database: its address, connections, tables and statements."""
