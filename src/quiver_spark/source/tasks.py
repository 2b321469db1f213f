"""What one Spark task reads, and how it reads it."""

import os
from collections.abc import Iterator, Sequence

import pyarrow as pa
from pyspark.sql.datasource import InputPartition
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from quiver_spark.json_values.typed_values import message_columns, typed_values
from quiver_spark.runtime.worker_modules import expect_to_be_cut_off, settle_modules
from quiver_spark.source.columns import check_columns
from quiver_spark.source.frames import read_slice
from quiver_spark.source.narrow.hints import read_hints, whole_schema
from quiver_spark.source.narrow.keys import read_keys
from quiver_spark.source.narrow.summaries import SUMMARY_COLUMN, summaries
from quiver_spark.source.options import ReadOptions
from quiver_spark.source.slices import Slice, pack


class SlicePartition(InputPartition):
    """Slices that one task reads one after the other."""

    def __init__(self, slices: tuple[Slice, ...]) -> None:
        super().__init__(None)
        self.slices = slices


def tasks(slices: Sequence[Slice], options: ReadOptions, *, narrow: bool = False) -> list[InputPartition]:
    """One task per group of slices; one per slice if the options say how many tasks there are, or how large."""
    if options.min_partitions is not None or options.max_rows_per_partition is not None:
        return [SlicePartition((slice_,)) for slice_ in slices]
    return [SlicePartition(group) for group in pack(slices, cores=cores(options), narrow=narrow)]


def cores(options: ReadOptions) -> int:
    """How many tasks can run at once. The planning process cannot see the cluster, only its own machine."""
    return options.parallelism or len(os.sched_getaffinity(0))


class SliceReader:
    """Reads slices into batches of exactly the schema that Spark asks for. Sent to the workers."""

    def __init__(self, options: ReadOptions, schema: StructType) -> None:
        self.options = options
        self.hints = read_hints(schema.fields)
        whole = whole_schema(schema)
        self._typed = typed_values(whole, schema.names)
        check_columns(message_columns(whole))
        names = message_columns(schema)
        self._is_summary = SUMMARY_COLUMN in names
        self._columns = tuple(name for name, kind in names if (name, kind) != SUMMARY_COLUMN)
        self._schema: pa.Schema = to_arrow_schema(schema, timezone="UTC")

    @property
    def is_narrow(self) -> bool:
        """Whether headers or keys are all that is read of most messages."""
        return self._is_summary or self.hints.keys is not None

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        if not isinstance(partition, SlicePartition):  # Spark's way to say that there is nothing to read
            return
        expect_to_be_cut_off()
        for slice_ in partition.slices:
            for batch in self._batches(slice_):
                columns = batch.columns if self._typed is None else self._typed.converted(batch, self._schema.names)
                yield pa.RecordBatch.from_arrays(columns, schema=self._schema)
        settle_modules()

    def _batches(self, slice_: Slice) -> Iterator[pa.RecordBatch]:
        if self._is_summary:
            return summaries(slice_, self.options, self._columns)
        if self.hints.keys is not None:
            return read_keys(slice_, self.options, self._columns, self.hints.keys)
        return read_slice(slice_, self.options, self._columns)
