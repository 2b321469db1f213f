"""The audit of the segment files in a directory, without Spark."""

import random
from collections.abc import Callable
from pathlib import Path

from blackbox.processes.data_files import stored_frames
from quiver.reader.log_reader import LogReader
from quiver.records.header import StampedFrame
from quiver_spark.jobs.audit.log.log_audit import join_files, segment_ranges
from quiver_spark.jobs.audit.log.range_checks import RangeReport
from quiver_spark.jobs.audit.topics import AuditedTopic
from quiver_spark.source.catalogue import TopicExtent, TopicFacts
from quiver_spark.source.options import ReadOptions
from unit.log.keyed import Row, keyed_frame

Span = tuple[int | None, int | None]


def audit(
    directory: Path,
    *,
    compacted: bool = False,
    span: Span = (None, None),
    meanwhile: Callable[[int], None] = lambda number: None,
) -> RangeReport:
    """`meanwhile` is called before each of the files is read."""
    log = LogReader(directory, "t-0")
    log.refresh()
    start, end = span
    whole = (log.start_offset if start is None else start, log.end_offset if end is None else end)
    extent = TopicExtent("t", 1, [log.start_offset], [log.end_offset], log.size_bytes)
    topic, findings, reports = AuditedTopic(extent, TopicFacts(compacted, False, 0), (whole,)), [], []  # type: ignore[var-annotated]
    for number, audited in enumerate(segment_ranges(topic, 0, log, findings)):
        meanwhile(number)
        reports.append((audited.slice, audited.audit(ReadOptions(), 100)))
    report = join_files(reports, directory, is_compacted=compacted, limit=100)
    report.findings.add_all(findings)
    return report


def found(report: RangeReport) -> list[tuple[str, int, int]]:
    return [(each.kind, each.first_offset, each.last_offset) for each in report.findings.kept]


def message(offset: int, count: int = 2, *, size: int = 40, time_ms: int = 1_000) -> StampedFrame:
    rows: list[Row] = [(b"k%d" % n, random.Random(offset).randbytes(size)) for n in range(count)]
    return keyed_frame(offset, rows, producer_id=7, time_ms=time_ms)


def rewrite(path: Path, order: list[int]) -> None:
    """The frames of a file again: some left out, some twice."""
    data, frames = path.read_bytes(), stored_frames(path)
    path.write_bytes(b"".join(data[frames[n].position : frames[n].end] for n in order))
