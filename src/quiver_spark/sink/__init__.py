"""Writing to topics with Spark, exactly once."""
