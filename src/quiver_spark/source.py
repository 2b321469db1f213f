"""The data source `quiver`. What reads and writes is loaded where it is used: Spark imports this one everywhere."""

import sys
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader

if TYPE_CHECKING:
    from pyspark.sql.datasource import DataSourceStreamWriter, DataSourceWriter
    from pyspark.sql.types import StructType

_PUSHING = "pyspark.sql.worker.data_source_pushdown_filters"


class QuiverSource(DataSource):
    """Topics as tables, streams and sinks; docs/spark.md has the options."""

    @classmethod
    def name(cls) -> str:
        return "quiver"

    def schema(self) -> str:
        from quiver_spark.columns import SPARK_SCHEMA

        return SPARK_SCHEMA

    def reader(self, schema: "StructType") -> DataSourceReader:
        from quiver_spark.batch_reader import BatchReader, FilteringReader

        kind = FilteringReader if _pushes_filters() else BatchReader
        return kind(dict(self.options), schema)

    def streamReader(self, schema: "StructType") -> DataSourceStreamReader:
        from quiver_spark.stream_reader import StreamReader

        return StreamReader(dict(self.options), schema)

    def writer(self, schema: "StructType", overwrite: bool) -> "DataSourceWriter":
        from quiver_spark.batch_writer import BatchWriter

        writer: DataSourceWriter = BatchWriter(dict(self.options), schema, overwrite)
        return writer

    def streamWriter(self, schema: "StructType", overwrite: bool) -> "DataSourceStreamWriter":
        from quiver_spark.stream_writer import StreamWriter

        writer: DataSourceStreamWriter = StreamWriter(dict(self.options), schema, overwrite)
        return writer


def _pushes_filters() -> bool:
    """Whether this process plans a read with filters (spark.sql.python.filterPushdown.enabled).

    A reader that takes filters is refused where Spark pushes none. The setting itself is not known in the process
    that plans; which planner runs there is.
    """
    main: Any = sys.modules.get("__main__")
    spec = getattr(main, "__spec__", None)
    return _PUSHING in sys.modules or (spec is not None and spec.name == _PUSHING)
