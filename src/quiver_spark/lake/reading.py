"""The lake as a DataFrame: Spark reads the files that the table names."""

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

from quiver.model.errors import CorruptData
from quiver_spark.lake.files import LakeFile
from quiver_spark.lake.table import Lake

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def lake_frame(
    spark: "SparkSession",
    lake: Lake,
    files: Sequence[LakeFile] | None = None,
    *,
    topics: Collection[str] | None = None,
) -> "DataFrame":
    """Every message of the lake as it is now, or those of some topics or files of it; typed columns are null where
    unknown. Raises CorruptData if one of the files is lost: the other topics can still be read."""
    from pyspark.sql.pandas.types import from_arrow_schema

    chosen = lake.files() if files is None else files
    chosen = [file for file in chosen if topics is None or file.topic in topics]
    _check_there(lake, chosen)
    schema = from_arrow_schema(lake.schema())
    if not chosen:
        return spark.createDataFrame([], schema)
    root = f"file://{lake.root}"  # a path alone would be one of the cluster's default file system
    paths = [f"{root}/{file.path}" for file in chosen]
    return spark.read.schema(schema).option("basePath", root).parquet(*paths)


def _check_there(lake: Lake, files: Sequence[LakeFile]) -> None:
    """Spark says no more than that some path does not exist."""
    lost = [file for file in files if not (lake.root / file.path).is_file()]
    if lost:
        first, names = lost[0], ", ".join(sorted({file.topic for file in lost}))
        raise CorruptData(
            f"the lake in {lake.root} has lost {len(lost)} of its files, of the topics {names}: the first is"
            f" {first.path} with {first.rows} messages. Restore them from a backup, read other topics, or ask"
            f" quiver pipeline audit {first.topic} --lake {lake.root} what is missing"
        )
