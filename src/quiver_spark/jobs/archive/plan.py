"""What an archive run reads: each partition from its archived position to its end, in rounds of one commit each."""

import itertools
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from quiver.model.errors import OffsetOutOfRange
from quiver.model.limits import MIB
from quiver_spark.lake.table import Advance, Lake
from quiver_spark.source.catalogue import Catalogue, TopicExtent, bounded, chosen_extents, resolve
from quiver_spark.source.data_loss import lost
from quiver_spark.source.options import ReadOptions
from quiver_spark.source.slices import Slice, cut, pack

COMMIT_BYTES = 8192 * MIB
"""The largest commit: a run that is stopped loses at most this much work."""


class Round(NamedTuple):
    """What becomes one commit: tasks, each with slices, and the new positions of their partitions."""

    tasks: list[tuple[Slice, ...]]
    advances: list[Advance]

    @property
    def offsets(self) -> int:
        return sum(slice_.offsets for group in self.tasks for slice_ in group)


def remaining(lake: Lake, catalogue: Catalogue, options: ReadOptions) -> list[tuple[Advance, Slice]]:
    """What is left to archive of every partition. Messages removed before that are an error, or skipped."""
    found = []
    for topic in chosen_extents(catalogue, options):
        lake.check_archive(topic.name)
        _check_same(lake, topic, fails=options.fail_on_data_loss)
        for slice_, position in _places(lake, catalogue, topic, options):
            whole = bounded(slice_, topic, fails=options.fail_on_data_loss)
            if whole.stop > whole.start or whole.stop != (position or 0):
                found.append((Advance(topic.name, topic.id, slice_.partition, position, whole.stop), whole))
    return found


def _places(
    lake: Lake, catalogue: Catalogue, topic: TopicExtent, options: ReadOptions
) -> Iterator[tuple[Slice, int | None]]:
    numbers = range(len(topic.earliest))
    positions = {number: lake.position(topic.name, topic.id, number) for number in numbers}
    new = {number: options.start.at(topic.name, number) for number in numbers if positions[number] is None}
    starts = resolve(catalogue, topic, new)
    ends = {number: options.end.at(topic.name, number) for number in numbers} if options.end else {}
    stops = resolve(catalogue, topic, ends)
    for number in numbers:
        position, latest = positions[number], topic.latest[number]
        stop = min(stops.get(number, latest), latest)
        start = starts[number] if position is None else position
        if position is not None and position > latest:
            _check_not_shorter(topic, number, position, fails=options.fail_on_data_loss)
            continue
        yield Slice(topic.name, number, start, max(start, stop), topic.id), position


def _check_same(lake: Lake, topic: TopicExtent, *, fails: bool) -> None:
    archived = lake.topic_id(topic.name)
    if archived is not None and archived != topic.id and fails:
        raise OffsetOutOfRange(
            f"topic {topic.name!r} was deleted and created again since it was archived; what came after the last run"
            " is gone: archive it into another lake, or set failOnDataLoss to false to add its messages to those of"
            " the old one (the column topic_id distinguishes them)",
            topic=topic.name,
        )


def _check_not_shorter(topic: TopicExtent, partition: int, position: int, *, fails: bool) -> None:
    """The partition must not end before its archived position."""
    latest = topic.latest[partition]
    slice_ = Slice(topic.name, partition, latest, position)
    lost(slice_, position, f"they are in the lake, and the partition ends at {latest} now", fails=fails)


def rounds(
    left: Sequence[tuple[Advance, Slice]], catalogue: Catalogue, *, cores: int, commit_bytes: int = COMMIT_BYTES
) -> Iterator[Round]:
    """Everything that is left, in rounds. A round continues each of its partitions where the round before stopped."""
    wholes = {(step.topic, step.partition): step for step, _ in left}
    empty = [step for step, slice_ in left if not slice_.offsets]
    slices = cut((slice_ for _, slice_ in left), cores=cores)
    if not slices:
        if empty:
            yield Round([], empty)
        return
    for part in _by_size(slices, commit_bytes):
        completed = [catalogue.completed(slice_) for slice_ in part]
        yield Round(pack_by_partition(completed, cores=cores), [*_advances(part, wholes), *empty])
        empty = []


def pack_by_partition(slices: Sequence[Slice], *, cores: int) -> list[tuple[Slice, ...]]:
    """Groups of slices, one per task; the largest first, so that no long task runs alone at the end."""
    groups = pack(slices, cores=cores)
    return sorted(groups, key=lambda group: -sum(slice_.size_bytes for slice_ in group))


def _by_size(slices: Iterable[Slice], most_bytes: int) -> Iterator[list[Slice]]:
    group: list[Slice] = []
    size = 0
    for slice_ in slices:
        if group and size + slice_.size_bytes > most_bytes:
            yield group
            group, size = [], 0
        group.append(slice_)
        size += slice_.size_bytes
    if group:
        yield group


def _advances(part: Sequence[Slice], wholes: dict[tuple[str, int], Advance]) -> list[Advance]:
    """The new positions after these slices; moves the starts in `wholes` up to them."""
    steps = []
    for place, its_slices in itertools.groupby(part, key=lambda slice_: (slice_.topic, slice_.partition)):
        stop = max(slice_.stop for slice_ in its_slices)
        steps.append(wholes[place]._replace(stop=stop))
        wholes[place] = wholes[place]._replace(start=stop)
    return steps
