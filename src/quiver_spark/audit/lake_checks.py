"""What a lake says it has of a partition, against what its files and the log have. Pure."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import NamedTuple

import msgspec

from quiver_spark.audit.finding import Finding, Kind
from quiver_spark.lake.files import LakeFile

Span = tuple[int, int]
"""Offsets from the first to below the second."""


class ArchivedPartition(NamedTuple):
    """One partition in the log and in the lake."""

    topic: str
    partition: int
    files: tuple[LakeFile, ...]
    """Of this topic, without those of one that had its name before."""
    position: int | None
    """Up to where the lake says that it was archived."""
    latest: int
    """The end of the log."""
    low: int
    high: int
    """Offsets that the log still has, committed, within what the audit is about."""
    is_compacted: bool
    """Messages may have gone from the log since they were archived."""

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
"""Committed messages of the log by the begin of an interval and their date. No interval reaches over the begin or the
end of a file."""


def check_ranges(archived: ArchivedPartition) -> Iterator[Finding]:
    """Files of one date must not overlap."""
    in_order = sorted(archived.files, key=lambda file: (file.date, file.start, file.stop))
    for _, files in groupby(in_order, key=lambda file: file.date):
        behind, before = 0, ""
        for file in files:
            if file.start < behind:
                last = min(behind, file.stop) - 1
                yield _of(archived, "lake-range", file.start, last, f"two files have these offsets: {before} too", file)
            if file.stop > behind:
                behind, before = file.stop, file.path


def check_position(archived: ArchivedPartition) -> Iterator[Finding]:
    """The position must be behind all files, and not behind the log."""
    stop = max((file.stop for file in archived.files), default=0)
    position = archived.position
    if position is None:
        if archived.files:
            sentence = "the lake has files and no position of the partition: the next archive would double them"
            yield _of(archived, "lake-position", archived.begin, stop - 1, sentence)
        return
    if position < stop:
        sentence = f"the position is {position}, and files go up to {stop}: the next archive would double them"
        yield _of(archived, "lake-position", position, stop - 1, sentence)
    if position > archived.latest:
        sentence = f"the lake was archived up to {position}, and the log ends at {archived.latest}"
        yield _of(archived, "lake-position", archived.latest, position - 1, sentence)


def check_files(archived: ArchivedPartition, reports: Mapping[str, FileReport]) -> Iterator[Finding]:
    """Every file must be there, be readable, and have the rows that the table says."""
    for file in archived.files:
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
    for file in archived.files:
        start, stop = archived.compared(file)
        report = reports[file.path]
        if report.problem or start >= stop or any(a < stop and start < b for a, b in unknown):
            continue
        stored = sum(
            count for (begin, date), count in counts.items() if date == file.date and start <= begin < stop
        )
        if stored > report.compared_rows or (stored < report.compared_rows and not archived.is_compacted):
            sentence = f"the log has {stored} messages of {file.date} in this range, the file {report.compared_rows}"
            yield file, _of(archived, "lake-count", start, stop - 1, sentence, file)


def check_covered(archived: ArchivedPartition, counts: Counts) -> Iterator[Finding]:
    """Messages of the log in front of the position must be in the range of a file of their date."""
    if not archived.files or archived.position is None:
        return
    by_date: dict[str, list[Span]] = {}
    for file in archived.files:
        by_date.setdefault(file.date, []).append((file.start, file.stop))
    begins = sorted({begin for begin, _ in counts})
    ends = dict(zip(begins, [*begins[1:], archived.high], strict=True))
    missing: dict[str, list[tuple[int, int]]] = {}
    for (begin, date), count in sorted(counts.items()):
        if not archived.begin <= begin < archived.position:
            continue
        if not any(start <= begin < stop for start, stop in by_date.get(date, ())):
            missing.setdefault(date, []).append((begin, count))
    for date, found in missing.items():
        first, last = found[0][0], ends[found[-1][0]] - 1
        count = sum(each for _, each in found)
        sentence = f"{count} messages of {date} are in the log and in no file of the lake"
        yield _of(archived, "lake-range", first, last, sentence)


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
