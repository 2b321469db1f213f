"""The data source `quiver`. Readers and writers are imported when used: Spark imports this module everywhere."""

from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader

if TYPE_CHECKING:
    from pyspark.sql.datasource import DataSourceStreamWriter, DataSourceWriter
    from pyspark.sql.types import StructType


class QuiverSource(DataSource):
    """Topics as tables, streams and sinks; docs/spark.md has the options."""

    @classmethod
    def name(cls) -> str:
        return "quiver"

    def schema(self) -> str:
        from quiver_spark.source.columns import spark_schema
        from quiver_spark.source.options import includes_headers

        return spark_schema(with_headers=includes_headers(dict(self.options)))

    def reader(self, schema: "StructType") -> DataSourceReader:
        from quiver_spark.source.batch_reader import BatchReader

        return BatchReader(dict(self.options), schema)

    def streamReader(self, schema: "StructType") -> DataSourceStreamReader:
        from quiver_spark.source.stream_reader import StreamReader

        return StreamReader(dict(self.options), schema)

    def writer(self, schema: "StructType", overwrite: bool) -> "DataSourceWriter":
        from quiver_spark.sink.batch_writer import BatchWriter

        writer: DataSourceWriter = BatchWriter(dict(self.options), schema, overwrite)
        return writer

    def streamWriter(self, schema: "StructType", overwrite: bool) -> "DataSourceStreamWriter":
        from quiver_spark.sink.stream_writer import StreamWriter

        writer: DataSourceStreamWriter = StreamWriter(dict(self.options), schema, overwrite)
        return writer
