"""Connections to a broker: addresses, forks, log lines about failures."""
