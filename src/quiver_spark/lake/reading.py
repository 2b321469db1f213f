"""The lake as a DataFrame: Spark reads the files that the table names.

Files in a directory are read by Spark's own Parquet source. For an object store that would need packages of Hadoop
that PySpark does not have: there the workers read the files with Arrow.
"""

from collections.abc import Collection, Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from quiver.model.errors import CorruptData
from quiver_spark.lake.files import LakeFile
from quiver_spark.lake.parquet_file import completed
from quiver_spark.lake.storage.place import LakePlace
from quiver_spark.lake.storage.store import open_store
from quiver_spark.lake.table import Lake

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_BATCH_ROWS = 32_768


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
    if not lake.place.is_local:
        read = FileReader(lake.place, tuple(chosen), lake.schema())
        return spark.range(0, len(chosen), 1, len(chosen)).mapInArrow(read.batches, schema)
    root = lake.place.full_uri  # a path alone would be one of the cluster's default file system
    paths = [f"{root}/{file.path}" for file in chosen]
    return spark.read.schema(schema).option("basePath", root).parquet(*paths)


class FileReader(NamedTuple):
    """What the workers need to read files; sent to them as it is."""

    place: LakePlace
    files: tuple[LakeFile, ...]
    schema: pa.Schema

    def batches(self, numbers: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The rows of the files with these numbers, with all columns of the table."""
        store = open_store(self.place)
        for batch in numbers:
            for number in batch.column(0).to_pylist():
                file = self.files[number]
                with pq.ParquetFile(store.source(file.path)) as found:
                    for rows in found.iter_batches(_BATCH_ROWS):
                        yield completed(rows, self.schema, file)


def _check_there(lake: Lake, files: Sequence[LakeFile]) -> None:
    """Spark says no more than that some path does not exist."""
    missing = set(lake.store.missing(file.path for file in files))
    lost = [file for file in files if file.path in missing]
    if lost:
        first, names = lost[0], ", ".join(sorted({file.topic for file in lost}))
        raise CorruptData(
            f"the lake in {lake.place} has lost {len(lost)} of its files, of the topics {names}: the first is"
            f" {first.path} with {first.rows} messages. Restore them from a backup, read other topics, or ask"
            f" quiver pipeline audit {first.topic} --lake {lake.place} what is missing"
        )
