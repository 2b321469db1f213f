"""A lake against the log it was made from: counts, ranges, files and single messages. No finding where both agree."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from blackbox.processes.data_files import flip_bit, stored_frames
from quiver.records.body import open_body
from quiver.records.build import build_frame
from quiver.records.header import HEADER_BYTES, StampedFrame, stamp, unpack_header
from quiver.records.read import open_frame
from quiver.records.thin import thin_frame
from quiver_spark.jobs.archive.job import ArchiveTask
from quiver_spark.jobs.audit.finding import Finding
from quiver_spark.jobs.audit.lake.checks import (
    ArchivedPartition,
    FileReport,
    check_counts,
    check_covered,
    check_files,
    check_position,
    check_ranges,
)
from quiver_spark.jobs.audit.lake.compare import CompareTask
from quiver_spark.jobs.audit.lake.counts import CountTask, MessageCounts, file_report
from quiver_spark.jobs.audit.lake.lake_audit import _is_of
from quiver_spark.jobs.audit.topics import AuditedTopic
from quiver_spark.lake.files import LakeFile, date_of
from quiver_spark.lake.parquet_file import FileForm
from quiver_spark.lake.schema import STORED_SCHEMA
from quiver_spark.lake.storage.place import lake_place
from quiver_spark.lake.storage.store import open_store
from quiver_spark.source.catalogue import TopicExtent, TopicFacts
from quiver_spark.source.options import ReadOptions
from quiver_spark.source.slices import Slice
from unit.log.frames import frame_bytes
from unit.log.logs import append, close, open_log, segment_files

DAY_MS = 86_400_000
DAY = 20_000
FORM = FileForm(STORED_SCHEMA, "none")
FIRST, SECOND = date_of(DAY), date_of(DAY + 1)


def frame(offset: int, days: Iterable[int], **options: Any) -> StampedFrame:
    """A message a day, after the first of them."""
    times = [(DAY + day) * DAY_MS + n for n, day in enumerate(days)]
    values = [None if n % 5 == 4 else b"%d at %d" % (n, offset) for n in range(len(times))]
    keys = [None if n % 3 == 2 else b"k%d" % n for n in range(len(times))]
    built = build_frame(values, keys=keys, timestamps_ms=times, **options)
    return stamp(built, unpack_header(built), base_offset=offset, leader_epoch=1, append_time_ms=times[0])


def thinned(stamped: StampedFrame, kept: list[int]) -> StampedFrame:
    flags = np.zeros(stamped.header.record_count, np.bool_)
    flags[kept] = True
    body = open_body(memoryview(stamped.body), stamped.header)
    [found] = thin_frame(stamped.header, body, flags, max_bytes=10**6)
    return found


def counted(borders: tuple[int, ...], *frames: StampedFrame) -> dict[tuple[int, int], int]:
    counts = MessageCounts(borders)
    for each in frames:
        whole = frame_bytes(each)
        wants = counts.needs_body(each.header)
        counts.add(each.header, lambda whole=whole, wants=wants: open_frame(whole if wants else b""))  # type: ignore[misc]
    return {(borders[place], day - DAY): count for (place, day), count in counts.found.items()}


def test_messages_are_counted_by_interval_and_day() -> None:
    plain, mixed = frame(0, [0] * 10), frame(10, [0, 1] * 5)
    assert counted((0, 20), plain) == {(0, 0): 10}
    assert counted((0, 4, 20), plain) == {(0, 0): 4, (4, 0): 6}
    assert counted((2, 5), plain) == {(2, 0): 3}
    assert counted((0, 13, 20), plain, mixed) == {(0, 0): 12, (0, 1): 1, (13, 0): 3, (13, 1): 4}
    sparse = thinned(mixed, [0, 1, 9])
    assert counted((0, 20), sparse) == {(0, 0): 1, (0, 1): 2}
    assert counted((0, 11, 20), thinned(plain, [1, 9]), sparse) == {(0, 0): 3, (11, 1): 2}
    assert counted((5, 11), thinned(plain, [1, 9])) == {(5, 0): 1}


class Pair:
    """A log, and the files of a lake made from it."""

    def __init__(self, root: Path) -> None:
        self.lake, self.options = root / "lake", ReadOptions(path=str(root / "data"))
        log = open_log(root / "data" / "logs" / "t", segment_bytes=2048)
        for number in range(8):
            append(log, frame(10 * number, [0] * 5 + [number // 4] * 5, compression="lz4" if number % 2 else "none"))
        close(log)
        self.directory = log.files.directory
        self.slice = Slice("t", 0, 0, 80, 1, 10_000, log="t")
        write = ArchiveTask(lake_place(self.lake), "topic,date", FORM, self.options, None).write
        self.files = tuple(write([self.slice._replace(stop=33), self.slice._replace(start=33)]))
        self.archived = ArchivedPartition("t", 0, self.files, 80, 80, 0, 80, is_compacted=False)

    def path(self, number: int) -> Path:
        return self.lake / self.files[number].path

    def findings(self, archived: ArchivedPartition | None = None) -> list[Finding]:
        archived = archived or self.archived
        inside = {border for file in archived.files for border in (file.start, file.stop)}
        borders = sorted({archived.low, archived.high} | {b for b in inside if archived.low < b < archived.high})
        slice_ = self.slice._replace(start=archived.low, stop=archived.high)
        answer = CountTask(slice_, tuple(borders), self.options).answer()
        counts = {(begin, date_of(day)): count for begin, day, count in answer.counts}
        reports = {
            file.path: file_report(open_store(lake_place(self.lake)), file, archived.compared(file))
            for file in self.files
        }
        return [
            *check_ranges(archived),
            *check_position(archived),
            *check_files(archived, reports),
            *(finding for _, finding in check_counts(archived, reports, counts, answer.unknown)),
            *check_covered(archived, counts),
        ]

    def compared(self, number: int, **changes: Any) -> list[Finding]:
        archived, file = self.archived._replace(**changes), self.files[number]
        start, stop = archived.compared(file)
        slice_ = self.slice._replace(start=start, stop=stop)
        return CompareTask(archived, file, lake_place(self.lake), slice_, self.options, 100).answer().kept

    def rewrite(self, number: int, change: Any) -> None:
        table = pq.ParquetFile(self.path(number)).read()
        pq.write_table(change(table), self.path(number))


@pytest.fixture
def pair(tmp_path: Path) -> Pair:
    return Pair(tmp_path)


def found(findings: Iterable[Finding]) -> list[tuple[str, int, int]]:
    return [(each.kind, each.first_offset, each.last_offset) for each in findings]


def test_both_agree(pair: Pair) -> None:
    assert [(file.date, file.start, file.stop, file.rows) for file in pair.files] == [
        (FIRST, 0, 33, 33),
        (FIRST, 33, 80, 27),
        (SECOND, 33, 80, 20),
    ]
    assert pair.findings() == []
    assert [pair.compared(number) for number in range(3)] == [[], [], []]


def test_only_what_the_log_still_has_is_compared(pair: Pair) -> None:
    for low, high in ((20, 80), (40, 80), (0, 45), (33, 34), (80, 80)):
        assert pair.findings(pair.archived._replace(low=low, high=high)) == []
    assert pair.compared(0, low=17) == []
    assert pair.compared(2, high=47) == []


def test_a_file_that_is_gone_or_cannot_be_read(pair: Pair) -> None:
    pair.path(0).unlink()
    pair.path(2).write_bytes(b"PAR1 and nothing else")
    findings = pair.findings()
    assert found(findings) == [("lake-file", 0, 32), ("lake-file", 45, 79)]
    assert "33 messages of" in findings[0].sentence
    assert "the file is gone" in findings[0].sentence
    assert "the file cannot be read (" in findings[1].sentence
    assert findings[0].file == pair.files[0].path
    assert found(pair.compared(0)) == []
    assert found(pair.compared(2)) == [("lake-file", 45, 79)]


def test_rows_that_are_missing(pair: Pair) -> None:
    pair.rewrite(0, lambda table: pa.concat_tables([table.slice(0, 4), table.slice(7)]))
    findings = pair.findings()
    assert found(findings) == [("lake-file", 0, 32), ("lake-count", 0, 32)]
    assert findings[0].sentence == "the file has 30 rows, and the table says 33"
    assert findings[1].sentence == f"the log has 33 messages of {FIRST} in this range, the file 30"
    assert found(pair.compared(0)) == [("lake-missing", 4, 6)]
    compacted = pair.archived._replace(is_compacted=True)
    assert [kind for kind, *_ in found(pair.findings(compacted))] == ["lake-file", "lake-count"]


def test_rows_that_are_too_much(pair: Pair) -> None:
    extra = {"offset": 500, "partition": 0}
    pair.rewrite(1, lambda table: pa.concat_tables([table, _like(table, 39, extra)]).sort_by("offset"))
    assert [kind for kind, *_ in found(pair.findings())] == ["lake-file", "lake-count"]
    pair.rewrite(1, lambda table: table.filter(pa.array(table.column("offset").to_numpy() < 100)))
    assert pair.findings() == []
    pair.rewrite(0, lambda table: pa.concat_tables([table, _like(table, 3, {})]).sort_by("offset").slice(0, 33))
    assert pair.findings() == [], "the count is right"
    assert found(pair.compared(0)) == [("lake-extra", 3, 3), ("lake-missing", 32, 32)]


def _like(table: pa.Table, offset: int, change: dict[str, Any]) -> pa.Table:
    row = next(row for row in table.to_pylist() if row["offset"] == offset)
    return pa.Table.from_pylist([{**row, **change}], schema=table.schema)


def test_messages_that_differ(pair: Pair) -> None:
    def change(table: pa.Table) -> pa.Table:
        rows = table.to_pylist()
        rows[2]["value"], rows[3]["value"], rows[9]["value"] = b"other", None, b"was null"
        rows[4]["key"], rows[2]["key"] = b"x", b"was null"
        rows[7]["timestamp"] = rows[8]["timestamp"]
        rows[8]["priority"] = "low"
        return pa.Table.from_pylist(rows, schema=table.schema)

    pair.rewrite(0, change)
    assert pair.findings() == [], "counts say nothing"
    findings = pair.compared(0)
    assert {(each.first_offset, each.last_offset, each.sentence.partition(" ")[0]) for each in findings} == {
        (2, 3, "value"), (9, 9, "value"), (4, 4, "key"), (2, 2, "key"), (7, 7, "timestamp"), (8, 8, "priority"),
    }  # fmt: skip
    assert {each.kind for each in findings} == {"lake-content"}


def test_a_log_that_was_compacted_since(pair: Pair) -> None:
    path = segment_files(pair.directory)[0]
    stored = stored_frames(path)[1]
    data = path.read_bytes()
    old = open_frame(data, stored.position)
    whole = StampedFrame(
        old.header, data[stored.position :][:HEADER_BYTES], data[stored.position + HEADER_BYTES : stored.end]
    )
    path.write_bytes(data[: stored.position] + frame_bytes(thinned(whole, [1, 5])) + data[stored.end :])
    assert [kind for kind, *_ in found(pair.findings())] == ["lake-count"]
    assert found(pair.compared(0)) == [("lake-extra", 10, 10), ("lake-extra", 12, 14), ("lake-extra", 16, 19)]
    assert pair.findings(pair.archived._replace(is_compacted=True)) == []
    assert pair.compared(0, is_compacted=True) == []


def test_what_the_log_cannot_tell_is_not_held_against_the_lake(pair: Pair) -> None:
    path = segment_files(pair.directory)[0]
    flip_bit(path, stored_frames(path)[1].position + 10)
    assert pair.findings() == []
    assert pair.compared(0) == []
    pair.rewrite(1, lambda table: table.slice(1))
    assert found(pair.findings()) == [("lake-file", 33, 74), ("lake-count", 33, 79)]
    assert found(pair.compared(1)) == [("lake-missing", 33, 33)]


def file(start: int, stop: int, date: str = FIRST, rows: int = 1) -> LakeFile:
    return LakeFile("t", date, 0, start, stop, f"a{start}", rows, 5, start, stop - 1)


def archive(*files: LakeFile, position: int | None = 100, latest: int = 100, **changes: Any) -> ArchivedPartition:
    return ArchivedPartition("t", 0, files, position, latest, 0, latest, is_compacted=False)._replace(**changes)


def test_ranges_of_one_date_must_not_overlap() -> None:
    assert list(check_ranges(archive(file(0, 50), file(50, 100), file(20, 70, SECOND)))) == []
    assert found(check_ranges(archive(file(0, 50), file(40, 100)))) == [("lake-range", 40, 49)]
    assert found(check_ranges(archive(file(0, 90), file(40, 50), file(60, 95)))) == [
        ("lake-range", 40, 49),
        ("lake-range", 60, 89),
    ]


def test_positions() -> None:
    assert list(check_position(archive(file(0, 90)))) == []
    assert list(check_position(archive(position=None))) == []
    assert found(check_position(archive(file(5, 90), position=None))) == [("lake-position", 5, 89)]
    assert found(check_position(archive(file(0, 90), position=70))) == [("lake-position", 70, 89)]
    assert found(check_position(archive(file(0, 90), latest=80))) == [("lake-position", 80, 99)]


def test_messages_that_no_file_covers() -> None:
    counts = {(0, FIRST): 5, (50, FIRST): 7, (50, SECOND): 2, (80, SECOND): 1, (100, FIRST): 9}
    assert found(check_covered(archive(file(0, 100), file(50, 100, SECOND)), counts)) == []
    [gap] = check_covered(archive(file(0, 50), file(50, 100, SECOND)), counts)
    assert (gap.first_offset, gap.last_offset, gap.sentence.partition(" ")[0]) == (50, 99, "7")
    assert found(check_covered(archive(file(0, 100), file(80, 90, SECOND)), counts)) == [("lake-range", 50, 79)]
    assert found(check_covered(archive(file(50, 100), file(50, 100, SECOND)), counts)) == [], "begun at 50"
    assert found(check_covered(archive(), counts)) == []


def test_files_of_an_earlier_topic_are_only_looked_into() -> None:
    old = file(0, 100, rows=7)
    reports = {old.path: FileReport(old.path, 7)}
    assert list(check_files(archive(earlier=(old,)), reports)) == []
    assert found(check_files(archive(earlier=(old,)), {old.path: FileReport(old.path, 6)})) == [("lake-file", 0, 99)]


@pytest.mark.parametrize(("topic_id", "is_of_it"), [(5, True), (4, False), (None, True)])
def test_files_of_a_topic_are_told_by_its_id(topic_id: int | None, is_of_it: bool) -> None:
    """The clock may have been set back: what an older topic stored looks younger then."""
    extent = TopicExtent("t", 5, [0], [10], 0)
    topic = AuditedTopic(extent, TopicFacts(False, False, 1_000), ((0, 10),))
    file = LakeFile("t", "2026-01-31", 0, 0, 10, "a", max_append_us=2_000_000, topic_id=topic_id)
    assert _is_of(file, topic, 1_000_000) == is_of_it
