"""How Spark finds the data source `quiver` by itself: it looks for `DefaultSource` in every module `pyspark_*`."""

from quiver_spark.source.data_source import QuiverSource as DefaultSource

__all__ = ["DefaultSource"]
