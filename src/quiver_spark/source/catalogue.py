"""Which topics exist and where their partitions begin and end: asked of a broker or read from files."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol

from quiver.model.errors import InvalidRequest, OffsetOutOfRange
from quiver.model.position import LATEST, Position
from quiver.model.times import format_time
from quiver.structures.name_pattern import check_pattern, matching
from quiver_spark.source.data_loss import lost
from quiver_spark.source.narrow.hints import NO_HINTS, ReadHints
from quiver_spark.source.options import ReadOptions
from quiver_spark.source.slices import Slice, cut

_LAST_MS = 253_402_300_799_999
"""The end of the year 9999: no message is later."""


class TopicExtent(NamedTuple):
    """The extent of a topic now; one entry per partition in each list."""

    name: str
    id: int
    earliest: Sequence[int]
    latest: Sequence[int]
    """The offset after the last message that may be read: only committed ones, unless others were asked for."""
    size_bytes: int

    @property
    def bytes_each(self) -> float:
        return self.size_bytes / max(1, sum(self.latest) - sum(self.earliest))


class TopicFacts(NamedTuple):
    """What the settings of a topic explain about its log."""

    is_compacted: bool
    in_memory: bool
    created_at_ms: int


class Catalogue(Protocol):
    def names(self) -> list[str]:
        """All topics."""
        ...

    def extent(self, name: str) -> TopicExtent:
        """Raises TopicNotFound if there is none."""
        ...

    def facts(self, name: str) -> TopicFacts:
        """Raises TopicNotFound if there is none."""
        ...

    def find(self, topic: TopicExtent, positions: Mapping[int, Position]) -> dict[int, int]:
        """The offset of each partition at a time."""
        ...

    def completed(self, slice_: Slice) -> Slice:
        """The slice with what its reader needs in addition to the offsets."""
        ...

    def close(self) -> None: ...


def open_catalogue(options: ReadOptions) -> Catalogue:
    if options.path is not None:
        from quiver_spark.direct.catalogue import DirectCatalogue

        return DirectCatalogue(options)
    from quiver_spark.source.broker_catalogue import BrokerCatalogue

    return BrokerCatalogue(options)


def chosen_topics(catalogue: Catalogue, options: ReadOptions) -> list[str]:
    """The topics that the options name; those of a pattern are looked up each time."""
    if options.pattern is None:
        return list(options.topics)
    check_pattern(options.pattern)
    return sorted(matching(options.pattern, catalogue.names()))


def chosen_extents(catalogue: Catalogue, options: ReadOptions) -> list[TopicExtent]:
    """The extents of these topics. Raises InvalidRequest if start or end names another topic or partition."""
    topics = [catalogue.extent(name) for name in chosen_topics(catalogue, options)]
    options.check_positions({topic.name: len(topic.earliest) for topic in topics})
    return topics


def plan(options: ReadOptions, *, cores: int, hints: ReadHints = NO_HINTS, narrow: bool = False) -> list[Slice]:
    """The slices of a batch read: the topics as they are now, without what hints leave out, cut for the cores.

    `narrow`: headers or keys are all that is read of most messages.
    """
    catalogue = open_catalogue(options)
    try:
        topics = chosen_extents(catalogue, options)
        ranges = [
            slice_
            for topic in topics
            for slice_ in _hinted(catalogue, topic, _ranges(catalogue, topic, options), hints)
        ]
        least, most = options.min_partitions, options.max_rows_per_partition
        slices = cut(ranges, cores=cores, min_slices=least, max_rows=most, narrow=narrow)
        return [catalogue.completed(slice_) for slice_ in slices]
    finally:
        catalogue.close()


def resolve(catalogue: Catalogue, topic: TopicExtent, positions: Mapping[int, Position]) -> dict[int, int]:
    """The offset of each partition's position."""
    found: dict[int, int] = {}
    for partition, position in positions.items():
        match position.kind:
            case "earliest":
                found[partition] = topic.earliest[partition]
            case "latest":
                found[partition] = topic.latest[partition]
            case "offset":
                found[partition] = position.value
    times = {partition: position for partition, position in positions.items() if position.kind == "time"}
    return found | (catalogue.find(topic, times) if times else {})


def start_offsets(catalogue: Catalogue, topic: TopicExtent, options: ReadOptions) -> dict[int, int]:
    """Where a read begins in each partition that it takes. Raises InvalidRequest if nothing came since a start time
    and the options want to know."""
    numbers = [number for number in range(len(topic.earliest)) if options.reads(topic.name, number)]
    positions = {number: options.start.at(topic.name, number) for number in numbers}
    found = resolve(catalogue, topic, positions)
    for number, position in positions.items() if options.fails_after_last else ():
        if position.kind == "time" and found[number] >= topic.latest[number]:
            raise InvalidRequest(
                problem=f"{topic.name}-{number} has no message since {format_time(position.value)}; with"
                " startTimeStrategy set to latest it is read from its end"
            )
    return found


def _ranges(catalogue: Catalogue, topic: TopicExtent, options: ReadOptions) -> list[Slice]:
    name, starts = topic.name, start_offsets(catalogue, topic, options)
    ends = resolve(catalogue, topic, {n: options.end.at(name, n) if options.end else LATEST for n in starts})
    return [
        bounded(Slice(name, n, starts[n], ends[n], topic.id), topic, fails=options.fail_on_data_loss) for n in starts
    ]


def _hinted(catalogue: Catalogue, topic: TopicExtent, slices: Sequence[Slice], hints: ReadHints) -> list[Slice]:
    """What hints leave of the slices, one of each partition."""
    clipped = [found for slice_ in slices if (found := hints.clipped(slice_)).offsets]
    least, most = hints.append_ms
    if hints.append_ms.is_open or not clipped:
        return clipped
    first = catalogue.find(topic, {slice_.partition: Position("time", max(0, least)) for slice_ in clipped})
    last = catalogue.find(topic, {slice_.partition: Position("time", min(_LAST_MS, most) + 1) for slice_ in clipped})
    return [slice_.between(first[slice_.partition], last[slice_.partition]) for slice_ in clipped]


def bounded(slice_: Slice, topic: TopicExtent, *, fails: bool) -> Slice:
    """The slice within the partition, with an estimate of its size; missing messages are an error or are skipped."""
    earliest, latest = topic.earliest[slice_.partition], topic.latest[slice_.partition]
    start, stop = slice_.start, slice_.stop
    if start < min(earliest, stop):
        why = f"retention removed them, the partition begins at {earliest}"
        lost(slice_, min(earliest, stop), why, fails=fails)
        start = min(earliest, stop)
    if stop > latest:
        if fails:
            raise OffsetOutOfRange(offset=stop, topic=slice_.topic, partition=slice_.partition,
                                   earliest=earliest, latest=latest)  # fmt: skip
        stop = latest
    stop = max(start, stop)
    return slice_._replace(start=start, stop=stop, size_bytes=int((stop - start) * topic.bytes_each))
