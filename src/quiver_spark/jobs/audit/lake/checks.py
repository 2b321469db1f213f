"""Compares what a lake claims to have of a partition with its files and the log. Pure."""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import accumulate, groupby
from typing import NamedTuple

import msgspec

from quiver_spark.jobs.audit.finding import Finding, Kind
from quiver_spark.lake.files import LakeFile

Span = tuple[int, int]
"""Offsets from the first to below the second."""


class ArchivedPartition(NamedTuple):
    """One partition in the log and in the lake."""

    topic: str
    partition: int
    files: tuple[LakeFile, ...]
    """Files of this topic, without those of one that had its name before."""
    position: int | None
    """Up to where the lake says that it was archived."""
    latest: int
    """The end of the log."""
    low: int
    high: int
    """Offsets that the log still has, committed, within what the audit is about."""
    is_compacted: bool
    """Messages may have gone from the log since they were archived."""
    earlier: tuple[LakeFile, ...] = ()
    """Files of a topic that had the name before: nothing is left to compare them with."""

    @property
    def begin(self) -> int:
        """Where its archive begins, as far as the files tell."""
        return min((file.start for file in self.files), default=0)

    def compared(self, file: LakeFile) -> Span:
        """The offsets of a file that the log has, too; none when the second is not above the first."""
        return max(file.start, self.low), min(file.stop, self.high)


class FileReport(msgspec.Struct, array_like=True):
    """What is in a file of the lake."""

    path: str
    rows: int = 0
    compared_rows: int = 0
    """Those with offsets that the log has, too."""
    problem: str = ""
    """Why it cannot be read."""


Counts = Mapping[tuple[int, str], int]
"""Committed messages of the log by the start of an interval and their date. No interval crosses the start or the end
of a file."""


def check_ranges(archived: ArchivedPartition) -> Iterator[Finding]:
    """Files of one date must not overlap."""
    in_order = sorted(archived.files, key=lambda file: (file.date, file.start, file.stop))
    for _, files in groupby(in_order, key=lambda file: file.date):
        end, before = 0, ""
        for file in files:
            if file.start < end:
                last = min(end, file.stop) - 1
                yield _of(
                    archived, "lake-range", file.start, last, f"two files have these offsets: {before} too", file
                )
            if file.stop > end:
                end, before = file.stop, file.path


def check_position(archived: ArchivedPartition) -> Iterator[Finding]:
    """The position must be at or after the end of every file, and not after the end of the log."""
    stop = max((file.stop for file in archived.files), default=0)
    position = archived.position
    if position is None:
        if archived.files:
            sentence = "the lake has files and no position of the partition: the next archive would duplicate them"
            yield _of(archived, "lake-position", archived.begin, stop - 1, sentence)
        return
    if position < stop:
        sentence = f"the position is {position}, and files go up to {stop}: the next archive would duplicate them"
        yield _of(archived, "lake-position", position, stop - 1, sentence)
    if position > archived.latest:
        sentence = f"the lake was archived up to {position}, and the log ends at {archived.latest}"
        yield _of(archived, "lake-position", archived.latest, position - 1, sentence)


def check_files(archived: ArchivedPartition, reports: Mapping[str, FileReport]) -> Iterator[Finding]:
    """Every file must be there, be readable, and have the rows that the table says."""
    for file in (*archived.earlier, *archived.files):
        report = reports[file.path]
        if report.problem:
            sentence = f"{file.rows} messages of {file.date}: {report.problem}"
            yield _of(archived, "lake-file", file.first_offset, file.last_offset, sentence, file)
        elif report.rows != file.rows:
            sentence = f"the file has {report.rows} rows, and the table says {file.rows}"
            yield _of(archived, "lake-file", file.first_offset, file.last_offset, sentence, file)


def check_counts(
    archived: ArchivedPartition, reports: Mapping[str, FileReport], counts: Counts, unknown: Sequence[Span]
) -> Iterator[tuple[LakeFile, Finding]]:
    """Files must have as many messages as the log has of their date and range, where the log can be read."""
    by_date = {date: _Sums(counts, date) for date in {file.date for file in archived.files}}
    for file in archived.files:
        start, stop = archived.compared(file)
        report = reports[file.path]
        if report.problem or start >= stop or any(a < stop and start < b for a, b in unknown):
            continue
        stored, there = by_date[file.date].between(start, stop), report.compared_rows
        if stored > there or (stored < there and not archived.is_compacted):
            sentence = f"the log has {stored} messages of {file.date} in this range, the file {there}"
            yield file, _of(archived, "lake-count", start, stop - 1, sentence, file)


class _Sums:
    """How many messages of a date there are up to each interval."""

    def __init__(self, counts: Counts, date: str) -> None:
        listed = sorted((begin, count) for (begin, other), count in counts.items() if other == date)
        self._begins = [begin for begin, _ in listed]
        self._sums = [0, *accumulate(count for _, count in listed)]

    def between(self, start: int, stop: int) -> int:
        return self._sums[bisect_left(self._begins, stop)] - self._sums[bisect_left(self._begins, start)]


def check_covered(archived: ArchivedPartition, counts: Counts) -> Iterator[Finding]:
    """Messages of the log before the position must be in the range of a file of their date."""
    if not archived.files or archived.position is None:
        return
    spans: dict[str, list[Span]] = {}
    for file in archived.files:
        spans.setdefault(file.date, []).append((file.start, file.stop))
    covers = {date: _Cover(sorted(found)) for date, found in spans.items()}
    missing: dict[str, list[tuple[int, int]]] = {}
    for (begin, date), count in sorted(counts.items()):
        if archived.begin <= begin < archived.position and not (date in covers and covers[date].has(begin)):
            missing.setdefault(date, []).append((begin, count))
    files = archived.files
    borders = sorted(
        {archived.position, archived.high, *(file.start for file in files), *(file.stop for file in files)}
    )
    for date, found in missing.items():
        stop = borders[min(bisect_right(borders, found[-1][0]), len(borders) - 1)]
        sentence = f"{sum(count for _, count in found)} messages of {date} are in the log and in no file of the lake"
        yield _of(archived, "lake-range", found[0][0], stop - 1, sentence)


class _Cover:
    """Whether an offset is in one of some spans."""

    def __init__(self, spans: Sequence[Span]) -> None:
        self._starts = [start for start, _ in spans]
        self._stops = list(accumulate((stop for _, stop in spans), max))

    def has(self, offset: int) -> bool:
        at = bisect_right(self._starts, offset)
        return at > 0 and offset < self._stops[at - 1]


def offset_findings(
    archived: ArchivedPartition, kind: Kind, offsets: Iterable[int], sentence: str, file: LakeFile
) -> Iterator[Finding]:
    """A finding for every run of offsets."""
    first = last = -2
    for offset in offsets:
        if offset == last + 1:
            last = offset
            continue
        if last >= 0:
            yield _of(archived, kind, first, last, sentence, file)
        first = last = offset
    if last >= 0:
        yield _of(archived, kind, first, last, sentence, file)


def _of(
    archived: ArchivedPartition, kind: Kind, first: int, last: int, sentence: str, file: LakeFile | None = None
) -> Finding:
    path = None if file is None else file.path
    return Finding(archived.topic, archived.partition, kind, first, max(first, last), sentence, path)
