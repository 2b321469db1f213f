"""Batch reads: the slices of a topic as it is now."""

from collections.abc import Iterable, Iterator, Mapping, Sequence

import pyarrow as pa
from pyspark.sql.datasource import (
    DataSourceReader,
    EqualNullSafe,
    EqualTo,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    InputPartition,
    IsNotNull,
    LessThan,
    LessThanOrEqual,
)
from pyspark.sql.datasource import Filter as SparkFilter
from pyspark.sql.types import StructType

from quiver.system.clock import SystemClock
from quiver_spark.catalogue import plan
from quiver_spark.filters import NO_FILTERS, Comparison, Filter, Filters, filter_of
from quiver_spark.options import read_options
from quiver_spark.tasks import SliceReader, cores, tasks

_COMPARISONS: dict[type[SparkFilter], Comparison] = {
    EqualTo: "=",
    EqualNullSafe: "=",
    In: "in",
    LessThan: "<",
    LessThanOrEqual: "<=",
    GreaterThan: ">",
    GreaterThanOrEqual: ">=",
    IsNotNull: "not null",
}


class BatchReader(DataSourceReader):
    def __init__(self, options: Mapping[str, str], schema: StructType) -> None:
        self._slices = SliceReader(read_options(options, now_ms=SystemClock().now_ms()), schema)
        self._filters = NO_FILTERS

    def partitions(self) -> list[InputPartition]:
        options = self._slices.options
        return tasks(plan(options, cores=cores(options), filters=self._filters), options)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return self._slices.read(partition, self._filters)


class FilteringReader(BatchReader):
    """Where Spark pushes filters down."""

    def pushFilters(self, filters: list[SparkFilter]) -> Iterable[SparkFilter]:
        """Takes those that are done exactly; the others stay with Spark."""
        taken: list[Filter] = []
        for each in filters:
            ours = _filter(each)
            if ours is None:
                yield each
            else:
                taken.append(ours)
        self._filters = Filters(tuple(taken))


def _filter(each: SparkFilter) -> Filter | None:
    comparison = _COMPARISONS.get(type(each))
    path: Sequence[str] = getattr(each, "attribute", ())
    if comparison is None or len(path) != 1:
        return None
    return filter_of(path[0], comparison, getattr(each, "value", None))
