"""A broker that runs some of the workers of an installation, which move between brokers."""
