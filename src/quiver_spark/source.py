"""The data source `quiver`. What reads and writes is loaded where it is used: Spark imports this one everywhere."""

from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader

from quiver_spark.worker_modules import is_worker

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

        # A reader that takes filters is refused where Spark pushes none (spark.sql.python.filterPushdown.enabled).
        # That setting is not known in the process that plans; which planner runs there is.
        kind = FilteringReader if is_worker(_PUSHING) else BatchReader
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
