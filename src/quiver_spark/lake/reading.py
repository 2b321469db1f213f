"""The lake as a DataFrame: Spark reads the files that the table names."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from quiver_spark.lake.files import LakeFile
from quiver_spark.lake.table import Lake

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def lake_frame(spark: "SparkSession", lake: Lake, files: Sequence[LakeFile] | None = None) -> "DataFrame":
    """Every message of the lake as it is now, or those of some of its files; typed columns are null where unknown."""
    from pyspark.sql.pandas.types import from_arrow_schema

    chosen = lake.files() if files is None else files
    schema = from_arrow_schema(lake.schema())
    if not chosen:
        return spark.createDataFrame([], schema)
    root = f"file://{lake.root}"  # a path alone would be one of the cluster's default file system
    paths = [f"{root}/{file.path}" for file in chosen]
    return spark.read.schema(schema).option("basePath", root).parquet(*paths)
