"""How far streams are, for Spark's progress reports and for groups of the broker."""
