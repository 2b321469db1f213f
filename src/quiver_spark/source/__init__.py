"""Reading topics with Spark: the data source `quiver`, for batch reads and streams."""
