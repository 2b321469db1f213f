"""Where dead letters are read from: which topics and offsets, and which of them were removed."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

import pyarrow as pa

from quiver.model.dead_letter import SUFFIX, dead_letter_topic, is_dead_letter_topic
from quiver.model.errors import TopicNotFound
from quiver.model.position import EARLIEST, LATEST, Position
from quiver.reader.data_directory import DataDirectory
from quiver.structures.interval_set import IntervalSet
from quiver.structures.name_pattern import check_pattern, matching
from quiver_spark.broker_client import broker_client
from quiver_spark.jobs.dead_letters.columns import DEAD_LETTER_COLUMNS, dead_letter_batch, message_columns
from quiver_spark.jobs.dead_letters.transforms import dead_letter_schema, without_removed
from quiver_spark.jobs.ranges import Range
from quiver_spark.runtime.cluster import cores
from quiver_spark.source.catalogue import open_catalogue, plan
from quiver_spark.source.frames import read_slice
from quiver_spark.source.options import ReadOptions
from quiver_spark.source.positions import PartitionPositions
from quiver_spark.source.slices import Slice, pack

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

TopicAndPartition = tuple[str, int]
"""A dead-letter topic and a partition of it."""


class DeadLetterRanges(NamedTuple):
    """What exists when a job begins; the whole job works on that."""

    ranges: list[Range]
    """One for every partition of every dead-letter topic, empty ones too."""
    topic_ids: dict[str, int]
    bytes_each: float
    """The approximate size of a dead letter."""

    @property
    def offsets(self) -> int:
        return sum(each.stop - each.start for each in self.ranges)

    def only(self, ranges: Iterable[Range]) -> "DeadLetterRanges":
        """The same partitions with these ranges, and nothing of those that have none among them."""
        known = {each[:2]: each for each in ranges}
        return self._replace(ranges=[known.get(each[:2], each._replace(stop=each.start)) for each in self.ranges])


def find_ranges(options: ReadOptions) -> DeadLetterRanges:
    """The dead letters of the topics that the options name; of all, when they name none.

    A topic is named by itself or by its dead-letter topic. Raises TopicNotFound if neither is there.
    """
    catalogue = open_catalogue(options)
    try:
        names = dead_letter_topics(catalogue.names(), options.topics, options.pattern)
        extents = {name: catalogue.extent(name) for name in names}
        known = _ranges_by_partition(options, names)
    finally:
        catalogue.close()
    ranges = [
        known.get((name, number), Range(name, number, 0, 0))
        for name, extent in extents.items()
        for number in range(len(extent.latest))
    ]
    bytes_each = max((extent.bytes_each for extent in extents.values()), default=0.0)
    return DeadLetterRanges(ranges, {name: extent.id for name, extent in extents.items()}, bytes_each)


def dead_letter_topics(there: Sequence[str], topics: Sequence[str], pattern: str | None) -> list[str]:
    """The dead-letter topics that the options name, among all topics. Pure."""
    known = set(there)
    for topic in topics:
        if topic not in known and dead_letter_topic(topic) not in known:
            raise TopicNotFound(f"there is no topic {topic!r}, and there are no dead letters of one", topic=topic)
    found = sorted(filter(is_dead_letter_topic, known))
    if topics:
        wanted = set(map(dead_letter_topic, topics))
        return [name for name in found if name in wanted]
    if pattern is None:
        return found
    check_pattern(pattern)
    fitting = matching(pattern, {*known, *(name.removesuffix(SUFFIX) for name in found)})
    wanted = {dead_letter_topic(name) for name in fitting}
    return [name for name in found if name in wanted]


def _ranges_by_partition(options: ReadOptions, names: Sequence[str]) -> dict[TopicAndPartition, Range]:
    if not names:
        return {}
    chosen = options._replace(topics=tuple(names), pattern=None, fail_on_data_loss=False)
    found: dict[TopicAndPartition, Range] = {}
    for slice_ in plan(chosen, cores=1):
        known = found.get(slice_[:2], Range(*slice_[:4]))
        found[slice_[:2]] = Range(*slice_[:2], min(known.start, slice_.start), max(known.stop, slice_.stop))
    return found


def find_removed(options: ReadOptions, found: DeadLetterRanges) -> dict[TopicAndPartition, IntervalSet]:
    """Which offsets in these ranges were redriven or purged."""
    removed: dict[TopicAndPartition, IntervalSet] = {}
    if options.path is None:
        client = broker_client(options.bootstrap, options.timeout_seconds)
        for topic in found.topic_ids:
            removed |= {(topic, partition): gone for partition, gone in client.dead_letters.removed(topic).items()}
    else:
        directory = DataDirectory(options.path)
        for topic, partition, *_ in found.ranges:
            removed[topic, partition] = directory.removed_dead_letters(found.topic_ids[topic], partition)
    return {
        each[:2]: IntervalSet(removed[each[:2]].within(each.start, each.stop))
        for each in found.ranges
        if each[:2] in removed
    }


def dead_letter_frame(
    spark: "SparkSession",
    options: ReadOptions,
    ranges: Sequence[Range],
    removed: Mapping[TopicAndPartition, IntervalSet],
    columns: Collection[str],
) -> "DataFrame":
    """The dead letters in these ranges, with these columns. They are typed where the log is read.

    What is gone when it is read was redriven or purged meanwhile: that is not data loss.
    """
    chosen = options._replace(
        topics=tuple(dict.fromkeys(each.topic for each in ranges)),
        pattern=None,
        start=_places(ranges, EARLIEST, "start"),
        end=_places(ranges, LATEST, "stop"),
        fail_on_data_loss=False,
    )
    tasks = pack(plan(chosen, cores=cores(spark)), cores=cores(spark))
    wanted = tuple(name for name in DEAD_LETTER_COLUMNS if name in columns)
    reader = DeadLetterReader(chosen, wanted, tasks, {place: gone for place, gone in removed.items() if gone})
    numbers = spark.range(0, len(tasks), 1, max(1, len(tasks)))
    return numbers.mapInArrow(reader.read, dead_letter_schema(wanted))


class DeadLetterReader(NamedTuple):
    """What the workers need; sent to them as it is."""

    options: ReadOptions
    columns: tuple[str, ...]
    tasks: list[tuple[Slice, ...]]
    removed: dict[TopicAndPartition, IntervalSet]

    def read(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The dead letters of the tasks with these numbers."""
        for batch in batches:
            for number in batch.column(0).to_pylist():
                for slice_ in self.tasks[number]:
                    yield from self._letters(slice_)

    def _letters(self, slice_: Slice) -> Iterator[pa.RecordBatch]:
        removed = IntervalSet(self.removed.get(slice_[:2], IntervalSet()).within(slice_.start, slice_.stop))
        for messages in read_slice(slice_, self.options, message_columns(self.columns)):
            yield dead_letter_batch(without_removed(messages, removed), self.columns)


def _places(ranges: Iterable[Range], default: Position, which: str) -> PartitionPositions:
    return PartitionPositions(
        default, tuple((each.topic, each.partition, Position("offset", getattr(each, which))) for each in ranges)
    )
