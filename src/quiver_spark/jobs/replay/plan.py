"""What a replay writes: ranges of offsets, fixed when it begins, in batches of one transaction each. Pure."""

from collections.abc import Iterable, Iterator, Sequence

from quiver.model.errors import InvalidRequest
from quiver.model.position import Position
from quiver_spark.jobs.ranges import Range, Times
from quiver_spark.lake.files import LakeFile
from quiver_spark.source.options import ReadOptions
from quiver_spark.source.slices import Slice, limit_rows

BATCH_ROWS = 10_000_000
PACE_SECONDS = 5
"""With a rate, a batch is what may be written in this time."""


def batch_rows(rate: int | None) -> int:
    if rate is None:
        return BATCH_ROWS
    if rate < 1:
        raise InvalidRequest(problem=f"the rate of {rate} rows per second is below 1; leave it out for no limit")
    return min(BATCH_ROWS, rate * PACE_SECONDS)


def batches(ranges: Sequence[Range], most_rows: int) -> Iterator[tuple[Range, ...]]:
    """All ranges, `most_rows` offsets at a time, shared among the partitions in proportion to what there is.

    Of topics that had the same name, one is done before the next begins.
    """
    for together in _one_after_the_other(ranges):
        left = [Slice(*each) for each in together if each.stop > each.start]
        while left:
            fronts = limit_rows(left, most_rows)
            yield tuple(Range(*front[:5]) for front in fronts if front.offsets)
            rest = [slice_._replace(start=front.stop) for slice_, front in zip(left, fronts, strict=True)]
            left = [slice_ for slice_ in rest if slice_.offsets]


def _one_after_the_other(ranges: Sequence[Range]) -> list[list[Range]]:
    """Ids grow: the topic with the lowest id is the oldest."""
    ids = {topic: sorted({each.topic_id for each in ranges if each.topic == topic}) for topic, *_ in ranges}
    found: dict[int, list[Range]] = {}
    for each in ranges:
        found.setdefault(ids[each.topic].index(each.topic_id), []).append(each)
    return [found[place] for place in sorted(found)]


def times_of(options: ReadOptions) -> Times:
    """What the times of rows must be within, where start or end is a time."""
    return Times(_time(options.start.everywhere), _time(options.end.everywhere) if options.end else None)


def lake_ranges(files: Iterable[LakeFile], options: ReadOptions, partitions: Sequence[int] | None) -> list[Range]:
    """The offsets that are asked for of what files have, as far as start and end are offsets.

    Raises InvalidRequest if they are and the files are of several topics with one name: then they mean nothing.
    """
    spans: dict[tuple[str, int, int], tuple[int, int]] = {}
    counts: dict[str, int] = {}
    for file in files:
        if options.topics and file.topic not in options.topics:
            continue
        counts[file.topic] = max(counts.get(file.topic, 0), file.partition + 1)
        if partitions is not None and file.partition not in partitions:
            continue
        place = (file.topic, file.topic_id or 0, file.partition)
        start, stop = spans.get(place, (file.start, file.stop))
        spans[place] = (min(start, file.start), max(stop, file.stop))
    options.check_positions(counts)
    if _names_offsets(options):
        _check_one_id(spans)
    return [
        _within(Range(topic, number, *span, topic_id), options)
        for (topic, topic_id, number), span in sorted(spans.items())
    ]


def _names_offsets(options: ReadOptions) -> bool:
    places = [options.start, *([options.end] if options.end else [])]
    positions = [each for one in places for each in (one.everywhere, *(place[2] for place in one.exceptions))]
    return any(each.kind == "offset" for each in positions)


def _check_one_id(places: Iterable[tuple[str, int, int]]) -> None:
    ids: dict[str, set[int]] = {}
    for topic, topic_id, _ in places:
        if topic_id:
            ids.setdefault(topic, set()).add(topic_id)
    for topic, found in ids.items():
        if len(found) > 1:
            listed = ", ".join(map(str, sorted(found)))
            raise InvalidRequest(
                problem=f"the lake has several topics that were named {topic!r} (ids {listed}), each with offsets of"
                " its own: choose one by topic_id (--topic-id), or start and end by times"
            )


def chosen_files(files: Iterable[LakeFile], ranges: Sequence[Range], times: Times) -> list[LakeFile]:
    """The files that may have rows of a batch."""
    wanted = {(each.topic, each.topic_id, each.partition): each for each in ranges}
    return [
        file
        for file in files
        if (span := wanted.get((file.topic, file.topic_id or 0, file.partition))) is not None
        and file.first_offset < span.stop
        and file.last_offset >= span.start
        and (times.start_ms is None or file.max_append_us >= times.start_ms * 1000)
        and (times.stop_ms is None or file.min_append_us < times.stop_ms * 1000)
    ]


def _within(span: Range, options: ReadOptions) -> Range:
    start, stop = span.start, span.stop
    first = options.start.at(span.topic, span.partition)
    last = options.end.at(span.topic, span.partition) if options.end else None
    if first.kind == "offset":
        start = max(start, first.value)
    elif first.kind == "latest":
        start = stop
    if last is not None and last.kind == "offset":
        stop = min(stop, last.value)
    elif last is not None and last.kind == "earliest":
        stop = start
    return span._replace(start=start, stop=max(start, stop))


def _time(position: Position) -> int | None:
    return position.value if position.kind == "time" else None


def row_condition(ranges: Sequence[Range], times: Times) -> str:
    """SQL that is true for the rows of a batch."""
    spans = [
        f"(topic = '{each.topic}' AND partition = {each.partition}"
        f" AND offset >= {each.start} AND offset < {each.stop})"
        for each in ranges
    ]
    condition = f"({' OR '.join(spans)})" if spans else "false"
    if times.start_ms is not None:
        condition += f" AND append_time >= timestamp_millis({times.start_ms})"
    if times.stop_ms is not None:
        condition += f" AND append_time < timestamp_millis({times.stop_ms})"
    return condition
