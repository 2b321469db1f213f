"""Topics as the tables of a catalog of Spark."""
