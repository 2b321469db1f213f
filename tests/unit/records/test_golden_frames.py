"""Files written by earlier versions stay readable, and mean the same."""

import struct

import pytest

from quiver.model.limits import Limits
from quiver.records.build import build_frame
from quiver.records.check import check_frame
from quiver.records.header import pack_header, unpack_header
from quiver.records.read import open_frame
from unit.records.frame_content import assert_holds
from unit.records.golden_frames import (
    APPEND_TIME_MS,
    BASE_OFFSET,
    CASES,
    COMPACTED_DELTAS,
    EVERY_COLUMN,
    LEADER_EPOCH,
    path_of,
)

ALL = [*CASES, "stamped", "compacted"]


def test_no_golden_file_is_forgotten() -> None:
    assert sorted(file.stem for file in path_of("one").parent.glob("*.bin")) == sorted(ALL)


@pytest.mark.parametrize("name", CASES)
def test_the_frames_of_producers_are_taken_and_mean_what_they_did(name: str) -> None:
    frame = path_of(name).read_bytes()
    header = check_frame(frame, Limits(), allow_control=True)
    assert_holds(open_frame(frame, verify=False), CASES[name])
    for field in ("priority", "producer_id", "producer_epoch", "base_sequence", "schema_id"):
        if field in CASES[name]:
            assert getattr(header, field) == CASES[name][field]
    assert header.is_transactional == CASES[name].get("transactional", False)
    assert header.is_control == CASES[name].get("control", False)


def test_the_stored_frame_is_read_with_its_checksums() -> None:
    opened = open_frame(path_of("stamped").read_bytes())
    assert_holds(opened, EVERY_COLUMN)
    assert opened.offsets() == range(BASE_OFFSET, BASE_OFFSET + 4)
    assert (opened.header.leader_epoch, opened.header.append_time_ms) == (LEADER_EPOCH, APPEND_TIME_MS)


def test_the_compacted_frame_keeps_its_offsets() -> None:
    opened = open_frame(path_of("compacted").read_bytes())
    assert opened.offsets() == [BASE_OFFSET + delta for delta in COMPACTED_DELTAS]
    assert opened.to_arrow().column("offset").to_pylist() == opened.offsets()
    assert opened.header.next_offset == BASE_OFFSET + 10
    assert opened.values() == [b"a", b"d", b"j"]


@pytest.mark.parametrize("name", ALL)
def test_headers_are_written_as_they_were(name: str) -> None:
    frame = path_of(name).read_bytes()
    assert bytes(pack_header(unpack_header(frame))) == frame[:88]


def test_the_fields_lie_where_the_decision_record_says() -> None:
    frame = path_of("transactional").read_bytes()
    assert frame[:4] == b"QV\x01\x00"
    assert frame[8:32] == bytes(24)
    assert struct.unpack_from("<IIII", frame, 32) == (len(frame) - 88, len(frame) - 88, 1, 0)
    assert struct.unpack_from("<qii", frame, 48) == (2**62, 7, 2**31 - 1)
    assert struct.unpack_from("<qqI", frame, 64) == (1_700_000_000_000, 1_700_000_000_000, 2**32 - 1)
    assert struct.unpack_from("<HH", frame, 84) == (0b100, 0)
    stored = path_of("stamped").read_bytes()
    assert struct.unpack_from("<qi4xq", stored, 8) == (BASE_OFFSET, LEADER_EPOCH, APPEND_TIME_MS)
    assert struct.unpack_from("<HH", stored, 84) == (0, 0b0011_1111)


def test_what_is_built_today_says_the_same() -> None:
    for name, arguments in CASES.items():
        frame = build_frame(**arguments)
        assert_holds(open_frame(frame, verify=False), arguments)
        golden = unpack_header(path_of(name).read_bytes())
        assert unpack_header(frame)._replace(body_crc=0, length=0) == golden._replace(body_crc=0, length=0)
