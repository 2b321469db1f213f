"""Damaged segments: cut, filled with zeros or garbage, or with one bit flipped. What is good is still read, what is
bad is named, nothing is deleted in silence.

One start of the broker checks many damages: each partition of a topic gets another one.
"""

import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import quiver
from blackbox.processes.broker_process import BrokerProcess
from blackbox.processes.data_files import append_bytes, flip_bit, partition_directory, segments, stored_frames
from quiver.model.errors import CorruptData, QuiverError
from quiver.records.header import HEADER_BYTES

MESSAGES = [b"first", b"second", b"third"]
FIRST_OF_LAST_FRAME = 2


def fill(broker: BrokerProcess, partitions: int) -> int:
    """A topic with the same three messages, one a frame, in every partition; returns the bytes of a frame."""
    with quiver.connect(broker.address) as q:
        q.topics.create("orders", partitions=partitions)
        for value in MESSAGES:
            with q.producer("orders") as producer:
                for partition in range(partitions):
                    producer.send(value, partition=partition)
    return stored_frames(last_segment(broker, 0))[-1].header.frame_bytes


def fill_a_partition_for_each_byte(broker: BrokerProcess) -> int:
    """As `fill`, with at least as many partitions as a frame has bytes."""
    frame_bytes = fill(broker, 1)
    with quiver.connect(broker.address) as q:
        q.topics.delete("orders")
    assert fill(broker, frame_bytes + 1) == frame_bytes
    return frame_bytes


def last_segment(broker: BrokerProcess, partition: int) -> Path:
    return segments(partition_directory(broker.data_dir, partition))[-1]


def read_until_error(q: Any, partition: int, start: int | str = "earliest") -> tuple[list[bytes], QuiverError | None]:
    """The values up to the end or to the first error, and that error."""
    values: list[bytes] = []
    try:
        for message in q.read("orders", start=start, end="latest", partitions=[partition]):
            values.append(message.value)  # noqa: PERF401 what came before an error is kept
    except QuiverError as error:
        return values, error
    return values, None


def remove_wal(broker: BrokerProcess) -> None:
    """As if the segments had been synced long ago: nothing is left that would repair them."""
    shutil.rmtree(broker.data_dir / "wal", ignore_errors=True)


def test_the_last_segment_cut_at_every_byte_of_its_last_frame(broker: BrokerProcess) -> None:
    frame_bytes = fill_a_partition_for_each_byte(broker)
    broker.kill()
    remove_wal(broker)
    for length in range(frame_bytes):
        segment = last_segment(broker, length)
        with segment.open("r+b") as file:
            file.truncate(stored_frames(segment)[-1].position + length)
    broker.start()
    with quiver.connect(broker.address) as q:
        for length in range(frame_bytes):
            assert read_until_error(q, length) == (MESSAGES[:2], None), f"{length} bytes of the last frame are left"
        assert read_until_error(q, frame_bytes) == (MESSAGES, None)
        for length in range(0, frame_bytes + 1, 9):
            assert q.publish("orders", b"new", partition=length).offset >= FIRST_OF_LAST_FRAME
            assert read_until_error(q, length)[0][-1] == b"new"


TAILS = {
    "one zero": b"\0",
    "zeros, less than a header": bytes(HEADER_BYTES - 1),
    "zeros, a page": bytes(4096),
    "zeros, many pages": bytes(300_000),
    "garbage, one byte": b"Q",
    "garbage, less than a header": random.Random(1).randbytes(50),
    "garbage, a page": random.Random(2).randbytes(4096),
    "garbage, many pages": random.Random(3).randbytes(300_000),
    "a magic and garbage": b"QV\x01" + random.Random(4).randbytes(500),
    "a magic and zeros": b"QV\x01" + bytes(500),
    "zeros, then garbage": bytes(5000) + random.Random(5).randbytes(500),
}


def test_zero_filled_and_random_tails(broker: BrokerProcess) -> None:
    fill(broker, len(TAILS))
    broker.kill()
    for partition, tail in enumerate(TAILS.values()):
        append_bytes(last_segment(broker, partition), tail)
    broker.start()
    with quiver.connect(broker.address) as q:
        for partition, name in enumerate(TAILS):
            assert read_until_error(q, partition) == (MESSAGES, None), name
            assert q.publish("orders", b"new", partition=partition).offset >= len(MESSAGES), name
    broker.restart(kill=True)
    with quiver.connect(broker.address) as q:
        for partition, name in enumerate(TAILS):
            assert read_until_error(q, partition) == ([*MESSAGES, b"new"], None), name
    kept = {path.parent.parent.name for path in (broker.data_dir / "logs").rglob("quarantine/*")}
    assert kept == {str(partition) for partition, tail in enumerate(TAILS.values()) if tail.strip(b"\0")}


@pytest.mark.parametrize("stop", [BrokerProcess.kill, BrokerProcess.terminate], ids=["killed", "stopped"])
def test_a_flipped_bit_in_the_log_is_named_and_read_around(
    broker: BrokerProcess, stop: Callable[[BrokerProcess], object]
) -> None:
    """In the second of three frames: every byte of its header, and some of its body."""
    frame_bytes = fill_a_partition_for_each_byte(broker)
    positions = [*range(HEADER_BYTES), *range(HEADER_BYTES, frame_bytes, 5)]
    stop(broker)
    remove_wal(broker)
    for partition, position in enumerate(positions):
        segment = last_segment(broker, partition)
        flip_bit(segment, stored_frames(segment)[1].position + position, partition % 8)
    broker.start()
    with quiver.connect(broker.address) as q:
        for partition, position in enumerate(positions):
            what = f"bit {partition % 8} of byte {position}"
            values, error = read_until_error(q, partition)
            assert values == MESSAGES[:1], what
            assert isinstance(error, CorruptData), f"{what}: {error!r}"
            assert "offset 2" in error.message, f"{what}: {error.message}"
            assert read_until_error(q, partition, start=2) == (MESSAGES[2:], None), what
            assert q.publish("orders", b"new", partition=partition).offset >= len(MESSAGES), what
            assert read_until_error(q, partition, start=2) == ([MESSAGES[2], b"new"], None), what


def test_what_the_write_ahead_log_has_repairs_the_end_of_a_log(broker: BrokerProcess) -> None:
    """After a kill it has the small appends that may not be synced: torn, zeroed, flipped or cut off."""
    fill(broker, 4)
    broker.kill()
    segments = [last_segment(broker, partition) for partition in range(4)]
    places = [stored_frames(segment)[1].position for segment in segments]
    flip_bit(segments[0], places[0] + HEADER_BYTES + 3, 1)
    for segment, place in zip(segments[1:], places[1:], strict=True):
        with segment.open("r+b") as file:
            file.truncate(place)
    append_bytes(segments[2], bytes(10_000))
    append_bytes(segments[3], random.Random(1).randbytes(10_000))
    broker.start()
    with quiver.connect(broker.address) as q:
        for partition in range(4):
            assert read_until_error(q, partition) == (MESSAGES, None)


def test_a_flipped_bit_in_the_last_frame_after_a_clean_stop_is_not_cut_in_silence(broker: BrokerProcess) -> None:
    """The broker said that this was on disk and stopped cleanly: it is damage, not a torn tail."""
    frame_bytes = fill_a_partition_for_each_byte(broker)
    assert broker.terminate() == 0
    positions = range(0, frame_bytes, 3)
    for partition, position in enumerate(positions):
        segment = last_segment(broker, partition)
        flip_bit(segment, stored_frames(segment)[2].position + position, partition % 8)
    broker.start()
    with quiver.connect(broker.address) as q:
        for partition, position in enumerate(positions):
            what = f"bit {partition % 8} of byte {position}"
            values, error = read_until_error(q, partition)
            assert values == MESSAGES[:2], what
            assert isinstance(error, CorruptData), f"{what}: {error!r}"
            assert q.publish("orders", b"new", partition=partition).offset >= len(MESSAGES), what
