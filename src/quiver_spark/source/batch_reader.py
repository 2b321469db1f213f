"""Batch reads: the slices of a topic as it is now.

The reader accepts no filters from Spark. Spark 4.3 would store the filtered partitions with the DataFrame and reuse
them for the next query, and for other branches of the same one. So Spark filters every row itself. What need not be
read for a query comes as a hint, see quiver_spark.source.narrow.hints.
"""

from collections.abc import Iterator, Mapping

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from quiver.system.clock import SystemClock
from quiver_spark.source.catalogue import plan
from quiver_spark.source.options import read_options
from quiver_spark.source.tasks import SliceReader, cores, tasks


class BatchReader(DataSourceReader):
    def __init__(self, options: Mapping[str, str], schema: StructType) -> None:
        self._slices = SliceReader(read_options(options, now_ms=SystemClock().now_ms()), schema)

    def partitions(self) -> list[InputPartition]:
        options, narrow = self._slices.options, self._slices.is_narrow
        slices = plan(options, cores=cores(options), hints=self._slices.hints, narrow=narrow)
        return tasks(slices, options, narrow=narrow)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return self._slices.read(partition)
