"""Files and tables as rows of messages. Pure but for the reading."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from quiver_spark.jobs.ingest.files import SourceFile


def file_rows(
    spark: "SparkSession", files: "Sequence[SourceFile]", key: str | None, schema: str | None = None
) -> "DataFrame":
    """The rows of files of one format. Lines of JSON and text are values as they are; rows of CSV and Parquet files
    become JSON objects. An empty line is no message."""
    paths, format_ = [f"file://{file.path}" for file in files], files[0].format
    if format_ in ("json", "text"):
        lines = spark.read.text(paths).where("length(trim(value)) > 0")
        return line_messages(lines, key if format_ == "json" else None)
    reader = spark.read if schema is None else spark.read.schema(schema)
    rows = reader.csv(paths, header=True) if format_ == "csv" else reader.parquet(*paths)
    return row_messages(rows, key)


def line_messages(lines: "DataFrame", key: str | None) -> "DataFrame":
    """Lines as values; the key is a field of the JSON object in them."""
    from pyspark.sql import functions as f

    found = f.lit(None).cast("string") if key is None else f.get_json_object("value", f"$['{key}']")
    return lines.select(found.alias("key"), "value")


def row_messages(rows: "DataFrame", key: str | None) -> "DataFrame":
    """Rows as JSON objects; the key is the text of a column."""
    from pyspark.sql import functions as f

    found = f.lit(None).cast("string") if key is None else f.col(f"`{key}`").cast("string")
    columns = [f.col(f"`{name}`") for name in rows.columns]
    return rows.select(
        found.alias("key"), f.to_json(f.struct(*columns), {"ignoreNullFields": "false"}).alias("value")
    )
