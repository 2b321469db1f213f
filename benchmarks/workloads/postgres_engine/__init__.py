"""A broker on PostgreSQL: how fast it is, and how large its tables become."""
