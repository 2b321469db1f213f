"""Damaged files: cut, filled with zeros or garbage, or with one bit flipped. What is good is still read, what is bad
is named, nothing is deleted in silence.

One start of the broker checks many damages: each partition of a topic gets another one.
"""

import random
from collections.abc import Callable
from pathlib import Path

import pytest

import quiver
from blackbox.broker_process import BrokerExited, BrokerProcess
from blackbox.data_files import append_bytes, flip_bit, partition_directory, segments, stored_frames
from quiver.model.errors import CorruptData, QuiverError
from quiver.records.header import HEADER_BYTES

MESSAGES = [b"first", b"second", b"third"]


def _fill(broker: BrokerProcess, partitions: int) -> None:
    """A topic with the same three messages, one a frame, in every partition."""
    with quiver.connect(broker.address) as q:
        q.topics.create("orders", partitions=partitions)
        for value in MESSAGES:
            with q.producer("orders") as producer:
                for partition in range(partitions):
                    producer.send(value, partition=partition)


def _segment(broker: BrokerProcess, partition: int) -> Path:
    return segments(partition_directory(broker.data_dir, partition))[-1]


def _values(q: object, partition: int, start: int | str = "earliest") -> list[bytes]:
    read = q.read("orders", start=start, end="latest", partitions=[partition])  # type: ignore[attr-defined]
    return [message.value for message in read]


def _frame_bytes(broker: BrokerProcess) -> int:
    return stored_frames(_segment(broker, 0))[-1].header.frame_bytes


def test_the_last_segment_cut_at_every_byte_of_its_last_frame(broker: BrokerProcess) -> None:
    _fill(broker, 1)
    frame_bytes = _frame_bytes(broker)
    with quiver.connect(broker.address) as q:
        q.topics.delete("orders")
    _fill(broker, frame_bytes + 1)
    broker.kill()
    for partition in range(frame_bytes):
        segment = _segment(broker, partition)
        last = stored_frames(segment)[-1]
        assert last.header.frame_bytes == frame_bytes
        with segment.open("r+b") as file:
            file.truncate(last.position + partition)
    broker.start()
    with quiver.connect(broker.address) as q:
        for partition in range(frame_bytes):
            assert _values(q, partition) == MESSAGES[:2], f"cut to {partition} bytes of the last frame"
        assert _values(q, frame_bytes) == MESSAGES
        for partition in range(0, frame_bytes + 1, 9):
            answer = q.publish("orders", b"new", partition=partition)
            assert answer.offset >= 2
            assert _values(q, partition)[-1] == b"new"


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
    _fill(broker, len(TAILS))
    broker.kill()
    for partition, tail in enumerate(TAILS.values()):
        append_bytes(_segment(broker, partition), tail)
    broker.start()
    with quiver.connect(broker.address) as q:
        for partition, name in enumerate(TAILS):
            assert _values(q, partition) == MESSAGES, name
            assert q.publish("orders", b"new", partition=partition).offset >= 3, name
        broker.restart(kill=True)
    with quiver.connect(broker.address) as q:
        for partition, name in enumerate(TAILS):
            assert _values(q, partition) == [*MESSAGES, b"new"], name
    kept = {path.parent.parent.name for path in (broker.data_dir / "logs").rglob("quarantine/*")}
    garbage = {str(partition) for partition, tail in enumerate(TAILS.values()) if tail.strip(b"\0")}
    assert kept == garbage


@pytest.mark.parametrize("stop", [BrokerProcess.kill, BrokerProcess.terminate], ids=["killed", "stopped"])
def test_a_flipped_bit_in_the_log_is_named_and_read_around(
    broker: BrokerProcess, stop: Callable[[BrokerProcess], object]
) -> None:
    _fill(broker, 1)
    frame_bytes = _frame_bytes(broker)
    with quiver.connect(broker.address) as q:
        q.topics.delete("orders")
    positions = [*range(HEADER_BYTES), *range(HEADER_BYTES, frame_bytes, 5)]
    _fill(broker, len(positions))
    stop(broker)
    for partition, position in enumerate(positions):
        segment = _segment(broker, partition)
        flip_bit(segment, stored_frames(segment)[1].position + position, partition % 8)
    broker.start()
    with quiver.connect(broker.address) as q:
        for partition, position in enumerate(positions):
            _check_middle_is_damaged(q, partition, f"bit {partition % 8} of byte {position}")


def _check_middle_is_damaged(q: object, partition: int, what: str) -> None:
    read: list[bytes] = []
    with pytest.raises(CorruptData) as caught:
        read.extend(_ValuesInto(read, q, partition))
    assert read == MESSAGES[:1], what
    assert "2" in caught.value.message, f"{what}: the next readable offset is named"
    assert _values(q, partition, start=2) == MESSAGES[2:], what
    assert q.publish("orders", b"new", partition=partition).offset >= 3, what  # type: ignore[attr-defined]
    assert _values(q, partition, start=2) == [MESSAGES[2], b"new"], what


class _ValuesInto:
    """Iterates a read and keeps what came before an error."""

    def __init__(self, kept: list[bytes], q: object, partition: int) -> None:
        self._kept, self._q, self._partition = kept, q, partition

    def __iter__(self) -> "_ValuesInto":
        raise NotImplementedError


def test_a_flipped_bit_in_the_index_changes_nothing(broker: BrokerProcess) -> None:
    raise NotImplementedError
