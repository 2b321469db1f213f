"""Segment files with every damage to real bytes, which is named with its offsets; and those of healthy logs, whatever
their broker did to them, which have no findings."""

import random
import shutil
from pathlib import Path

import pytest

from blackbox.processes.data_files import append_bytes, flip_bit, stored_frames
from quiver.model.errors import UnsupportedVersion
from quiver.records.header import HEADER_BYTES, StampedFrame, stamp, unpack_header
from unit.log.frames import frame_bytes
from unit.log.keyed import keyed_frame
from unit.log.logs import abandon, append, close, open_log, segment_files
from unit.spark.jobs.audit.segment_audit import audit, found, message, rewrite


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """A log of two frames in each of three segments, closed cleanly; messages 0 to 11."""
    log = open_log(tmp_path / "log", segment_bytes=2 * 1024)
    for offset in range(0, 12, 2):
        append(log, message(offset, size=250))
    close(log)
    assert len(segment_files(log.files.directory)) == 3
    return log.files.directory


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
    [path] = segment_files(log.files.directory)
    flip_bit(path, stored_frames(path)[1].position + 9)
    assert found(audit(log.files.directory)) == [("crc", 1, 1)]


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
            file.truncate(log.view.segments[-1].size)
    abandon(log)


def test_after_unclean_stops(tmp_path: Path) -> None:
    log = open_log(tmp_path / "log", segment_bytes=2 * 1024)
    for epoch in range(1, 6):
        for _ in range(epoch):
            append(log, _with_epoch(keyed_frame(log.end_offset, [(b"k", b"v")]), epoch))
        abandon(log)
        log = open_log(tmp_path / "log", segment_bytes=2 * 1024)
        log.skip_to(log.end_offset + 1_000)
    report = audit(log.files.directory)
    assert (found(report), report.explained) == ([], {"unclean stop": 4_000})
    append(log, _with_epoch(keyed_frame(log.end_offset + 7, [(b"k", b"v")]), 6))
    append(log, _with_epoch(keyed_frame(log.end_offset + 7, [(b"k", b"v")]), 6))
    [(kind, first, last)] = found(audit(log.files.directory))
    assert (kind, last - first + 1) == ("gap", 7)
    abandon(log)


def _with_epoch(frame: StampedFrame, epoch: int) -> StampedFrame:
    whole = frame_bytes(frame)
    return stamp(
        whole, unpack_header(whole), base_offset=frame.header.base_offset, leader_epoch=epoch, append_time_ms=1_000
    )


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
