"""Connections to a broker: addresses, forks, what is logged about trouble."""
