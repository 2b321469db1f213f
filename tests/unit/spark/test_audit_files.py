"""Segment files with every damage to real bytes, which is named with its offsets; and those of healthy logs, whatever
their broker did to them, which have no findings."""

import random
import shutil
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from blackbox.data_files import append_bytes, flip_bit, stored_frames
from quiver.log.compaction.replacement import NOTE
from quiver.model.errors import UnsupportedVersion
from quiver.records.header import HEADER_BYTES, StampedFrame, stamp, unpack_header
from quiver.storage.local import LocalStorage
from quiver.storage.port import Log, LogOptions
from quiver_spark.audit.log_audit import join_files, segment_stretches
from quiver_spark.audit.segment_files import current_bases
from quiver_spark.audit.stretch import StretchReport
from quiver_spark.audit.topics import AuditedTopic, TopicFacts
from quiver_spark.catalogue import TopicExtent
from quiver_spark.direct_log import DirectLog
from quiver_spark.options import ReadOptions
from unit.log.frames import frame_bytes
from unit.log.keyed import Row, everything, keyed_frame
from unit.log.logs import abandon, append, close, open_log, segment_files

Span = tuple[int | None, int | None]


def audit(
    directory: Path,
    *,
    compacted: bool = False,
    span: Span = (None, None),
    meanwhile: Callable[[int], None] = lambda number: None,
) -> StretchReport:
    """`meanwhile` is called before each of the files is read."""
    log = DirectLog(directory, "t-0")
    log.look()
    start, end = span
    whole = (log.start_offset if start is None else start, log.end_offset if end is None else end)
    extent = TopicExtent("t", 1, [log.start_offset], [log.end_offset], log.size_bytes)
    topic, findings, reports = AuditedTopic(extent, TopicFacts(compacted, False, 0), (whole,)), [], []  # type: ignore[var-annotated]
    for number, stretch in enumerate(segment_stretches(topic, 0, log, findings)):
        meanwhile(number)
        reports.append((stretch.piece, stretch.audit(ReadOptions(), 100)))
    report = join_files(reports, directory, is_compacted=compacted, limit=100)
    report.findings.add_all(findings)
    return report


def found(report: StretchReport) -> list[tuple[str, int, int]]:
    return [(each.kind, each.first_offset, each.last_offset) for each in report.findings.kept]


def message(offset: int, count: int = 2, *, size: int = 40, time_ms: int = 1_000) -> StampedFrame:
    rows: list[Row] = [(b"k%d" % n, random.Random(offset).randbytes(size)) for n in range(count)]
    return keyed_frame(offset, rows, producer_id=7, time_ms=time_ms)


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """A log of two frames in each of three segments, closed cleanly; messages 0 to 11."""
    log = open_log(tmp_path / "log", segment_bytes=2 * 1024)
    for offset in range(0, 12, 2):
        append(log, message(offset, size=250))
    close(log)
    assert len(segment_files(log.directory)) == 3
    return log.directory


def test_a_healthy_log(directory: Path) -> None:
    report = audit(directory)
    assert found(report) == []
    assert (report.frames, report.messages) == (6, 12)
    assert report.size_bytes == sum(path.stat().st_size for path in segment_files(directory))


@pytest.mark.parametrize("number", [0, 1, 2])
@pytest.mark.parametrize("frame", [0, 1])
def test_a_flipped_bit_anywhere_is_named_and_passed(directory: Path, number: int, frame: int) -> None:
    path = segment_files(directory)[number]
    stored = stored_frames(path)[frame]
    offset = stored.header.base_offset
    for byte in [*range(HEADER_BYTES), *range(HEADER_BYTES, stored.header.frame_bytes, 37)]:
        flip_bit(path, stored.position + byte, byte % 8)
        report = audit(directory)
        assert found(report) == [("crc", offset, offset + 1)], f"byte {byte}"
        [finding] = report.findings.kept
        assert (finding.file, finding.position) == (str(path), stored.position)
        assert report.messages in (10, 12), "it went on behind the damage"
        flip_bit(path, stored.position + byte, byte % 8)
    assert found(audit(directory)) == []


def test_two_damages(directory: Path) -> None:
    for path in segment_files(directory)[:2]:
        flip_bit(path, stored_frames(path)[0].position + 10)
    assert found(audit(directory)) == [("crc", 0, 1), ("crc", 4, 5)]


def test_a_message_that_holds_frames_is_not_taken_for_them(tmp_path: Path) -> None:
    log = open_log(tmp_path / "log")
    nested = frame_bytes(message(3))
    for offset in range(3):
        append(log, keyed_frame(offset, [(b"k", bytes(4) + nested)]))
    append(log, message(3))
    close(log)
    [path] = segment_files(log.directory)
    flip_bit(path, stored_frames(path)[1].position + 9)
    assert found(audit(log.directory)) == [("crc", 1, 1)]


def rewrite(path: Path, order: list[int]) -> None:
    """The frames of a file anew: some left out, some twice."""
    data, frames = path.read_bytes(), stored_frames(path)
    path.write_bytes(b"".join(data[frames[n].position : frames[n].end] for n in order))


def test_a_frame_that_was_cut_out(directory: Path) -> None:
    rewrite(segment_files(directory)[1], [1])
    assert found(audit(directory)) == [("gap", 4, 5)]


def test_a_frame_that_was_cut_out_of_the_last_file(directory: Path) -> None:
    rewrite(segment_files(directory)[2], [1])
    assert found(audit(directory)) == [("gap", 8, 9), ("lost", 8, 11)]


def test_a_frame_that_is_there_twice(directory: Path) -> None:
    rewrite(segment_files(directory)[1], [0, 0, 1])
    assert found(audit(directory)) == [("duplicate", 4, 5), ("order", 4, 5)]
    rewrite(segment_files(directory)[1], [0, 2])
    rewrite(segment_files(directory)[2], [0, 0, 1])
    assert found(audit(directory)) == [("duplicate", 8, 9), ("order", 8, 9)]


def test_a_file_that_is_gone(directory: Path) -> None:
    segment_files(directory)[1].unlink()
    assert found(audit(directory)) == [("gap", 4, 7)]


def test_the_last_file_is_gone_or_short(directory: Path) -> None:
    last = segment_files(directory)[2]
    last.write_bytes(last.read_bytes()[: stored_frames(last)[0].end])
    report = audit(directory)
    assert found(report) == [("lost", 8, 11)]
    assert "up to offset 12" in report.findings.kept[0].sentence
    last.unlink()
    assert found(audit(directory)) == [("lost", 8, 11)]


def test_frames_in_the_wrong_file(directory: Path) -> None:
    first, second, _ = segment_files(directory)
    one, other = first.read_bytes(), second.read_bytes()
    first.write_bytes(other)
    second.write_bytes(one)
    assert {kind for kind, *_ in found(audit(directory))} >= {"order"}


def test_a_part_of_the_log(directory: Path) -> None:
    for path in segment_files(directory):
        flip_bit(path, stored_frames(path)[1].position + 10)
    assert found(audit(directory)) == [("crc", 2, 3), ("crc", 6, 7), ("crc", 10, 11)]
    assert found(audit(directory, span=(4, 8))) == [("crc", 6, 7)]
    report = audit(directory, span=(5, 6))
    assert (found(report), report.messages) == ([], 2)


def test_a_later_version_is_no_damage(directory: Path) -> None:
    path = segment_files(directory)[1]
    data = bytearray(path.read_bytes())
    at = stored_frames(path)[1].position
    data[at + 2 : at + 30] = b"\x02" + random.Random(1).randbytes(27)
    path.write_bytes(data)
    with pytest.raises(UnsupportedVersion, match="upgrade"):
        audit(directory)


def test_a_write_under_way(directory: Path) -> None:
    log = open_log(directory, segment_bytes=2 * 1024)
    append(log, message(12))
    torn = frame_bytes(message(14))
    for tail in (torn[:20], torn[:-1], bytes(500), torn[:100] + bytes(5000)):
        append_bytes(segment_files(directory)[-1], tail)
        report = audit(directory)
        assert (found(report), report.messages) == ([], 14)
        with segment_files(directory)[-1].open("r+b") as file:
            file.truncate(log.segments[-1].size)
    abandon(log)


def test_after_unclean_stops(tmp_path: Path) -> None:
    log = open_log(tmp_path / "log", segment_bytes=2 * 1024)
    for epoch in range(1, 6):
        for _ in range(epoch):
            append(log, _with_epoch(keyed_frame(log.end_offset, [(b"k", b"v")]), epoch))
        abandon(log)
        log = open_log(tmp_path / "log", segment_bytes=2 * 1024)
        log.skip_to(log.end_offset + 1_000)
    report = audit(log.directory)
    assert (found(report), report.explained) == ([], {"unclean stop": 4_000})
    append(log, _with_epoch(keyed_frame(log.end_offset + 7, [(b"k", b"v")]), 6))
    append(log, _with_epoch(keyed_frame(log.end_offset + 7, [(b"k", b"v")]), 6))
    [(kind, first, last)] = found(audit(log.directory))
    assert (kind, last - first + 1) == ("gap", 7)
    abandon(log)


def _with_epoch(frame: StampedFrame, epoch: int) -> StampedFrame:
    whole = frame_bytes(frame)
    return stamp(
        whole, unpack_header(whole), base_offset=frame.header.base_offset, leader_epoch=epoch, append_time_ms=1_000
    )


async def filled(storage: LocalStorage, *, frames: int = 60) -> Log:
    log = await storage.open_log("t", LogOptions(durability="fsync", segment_bytes=64 * 1024, roll_after_ms=10**12))
    chance = random.Random(5)
    for number in range(frames):
        names = [b"k%d" % chance.randrange(30) for _ in range(10)]
        rows: list[Row] = [(b"hot" if number % 3 else name, chance.randbytes(400)) for name in names]
        await log.append([keyed_frame(log.end_offset, rows)])
    return log


async def test_compaction(tmp_path: Path) -> None:
    storage = LocalStorage(tmp_path)
    await storage.open()
    log = await filled(storage)
    directory = tmp_path / "logs" / "t"
    assert found(audit(directory, compacted=True)) == []
    await log.compact(everything(log))
    report = audit(directory, compacted=True)
    assert found(report) == []
    assert 0 < report.messages < 600
    assert report.explained.keys() == {"compaction"}
    assert found(audit(directory)) == [], "also when the topic is not compacted any more"
    await storage.close()
    last = segment_files(directory)[-1]
    rewrite(last, [n for n in range(len(stored_frames(last))) if n != 1])
    kinds = {kind for kind, *_ in found(audit(directory, compacted=True))}
    assert kinds == {"gap", "lost"}, "the last segment is never compacted"


async def test_compaction_while_it_is_read(tmp_path: Path) -> None:
    """Old files are put aside, and come to their places before each of the files that is read."""
    storage = LocalStorage(tmp_path / "data")
    await storage.open()
    log = await filled(storage)
    directory, old, new = tmp_path / "data" / "logs" / "t", tmp_path / "old", tmp_path / "new"
    shutil.copytree(directory, old)
    await log.compact(everything(log))
    await storage.close()
    shutil.copytree(directory, new)
    count = len(current_bases(old))
    assert len(current_bases(new)) < count
    for moment in range(count + 1):
        shutil.rmtree(directory)
        shutil.copytree(old, directory)

        def replace(number: int, moment: int = moment) -> None:
            if number == moment:
                for path in directory.iterdir():
                    path.unlink()
                for path in new.iterdir():
                    shutil.copy(path, directory)

        report = audit(directory, compacted=True, meanwhile=replace)
        assert found(report) == [], f"before file {moment}"


async def test_a_compaction_that_was_cut_short(tmp_path: Path) -> None:
    storage = LocalStorage(tmp_path)
    await storage.open()
    log = await filled(storage)
    directory, old = tmp_path / "logs" / "t", tmp_path / "old"
    shutil.copytree(directory, old)
    await log.compact(everything(log))
    await storage.close()
    replaced = [base for base in current_bases(old) if base not in current_bases(directory)]
    for base in replaced:
        shutil.copy(old / f"{base:020d}.log", directory)
    assert {kind for kind, *_ in found(audit(directory, compacted=True))} >= {"order"}
    first = segment_files(directory)[0]
    note = msgspec.msgpack.encode(((0, *replaced), first.stat().st_size, 0))
    (directory / NOTE).write_bytes(bytes(4) + note)
    assert found(audit(directory, compacted=True)) == []


def test_retention_while_it_is_read(directory: Path) -> None:
    files = segment_files(directory)

    def drop(number: int) -> None:
        if number == 1:
            files[0].unlink()
            files[1].unlink()

    report = audit(directory, meanwhile=drop)
    assert (found(report), report.explained) == ([], {"retention": 4})

    def delete(number: int) -> None:
        if number == 1:
            shutil.rmtree(directory)

    assert found(audit(directory, meanwhile=delete)) == []
