"""The tables of a database, from the command line."""
