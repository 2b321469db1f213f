"""Calls between the workers of one broker: a connection from each worker to each other one."""
