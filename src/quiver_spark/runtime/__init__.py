"""Sessions of Spark, on one machine or a cluster, and what workers need to run Quiver's code."""
