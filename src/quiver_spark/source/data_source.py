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

    default_bootstrap: str | None = None
    """Where the broker is if the options name neither a broker nor files; None: at the usual port of this machine."""

    def _given(self) -> dict[str, str]:
        """The options, with the default broker of the session."""
        given = dict(self.options)
        named = {name.lower() for name in given}
        if self.default_bootstrap is None or not named.isdisjoint(("bootstrap", "kafka.bootstrap.servers", "path")):
            return given
        return {**given, "bootstrap": self.default_bootstrap}

    def schema(self) -> str:
        from quiver_spark.json_values.read_schema import schema_of_read

        return schema_of_read(self._given())

    def reader(self, schema: "StructType") -> DataSourceReader:
        from quiver_spark.source.batch_reader import BatchReader

        return BatchReader(self._given(), schema)

    def streamReader(self, schema: "StructType") -> DataSourceStreamReader:
        from quiver_spark.source.stream_reader import StreamReader

        return StreamReader(self._given(), schema)

    def writer(self, schema: "StructType", overwrite: bool) -> "DataSourceWriter":
        from quiver_spark.sink.batch_writer import BatchWriter

        writer: DataSourceWriter = BatchWriter(self._given(), schema, overwrite)
        return writer

    def streamWriter(self, schema: "StructType", overwrite: bool) -> "DataSourceStreamWriter":
        from quiver_spark.sink.stream_writer import StreamWriter

        writer: DataSourceStreamWriter = StreamWriter(self._given(), schema, overwrite)
        return writer


def source_at(address: str) -> type[QuiverSource]:
    """The source with another default broker. The class exists in this process only, so Spark sends it as a whole."""
    return type(QuiverSource.__name__, (QuiverSource,), {"default_bootstrap": address})
