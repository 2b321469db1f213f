"""Topics, frames and transactions of a data directory, while a broker has it open and afterwards."""

from collections.abc import Iterator
from pathlib import Path

import pytest

import quiver
from quiver.model.errors import InvalidRequest, OffsetOutOfRange, TopicNotFound
from quiver.model.limits import KIB
from quiver.reader.data_directory import DataDirectory, partition_log
from quiver.reader.log_reader import LogReader
from quiver.reader.stored_frame import StoredFrame
from quiver.reader.stored_frames import FrameRange, stored_frames
from quiver.reader.stored_transactions import StoredTransactions
from quiver.records.aborted_frames import AbortedFrames
from quiver.records.header import HEADER_BYTES
from quiver.records.read import open_frame

MESSAGES = 60
VALUE_BYTES = 8_000


@pytest.fixture
def client(tmp_path: Path) -> Iterator[quiver.Client]:
    with quiver.open(tmp_path) as client:
        client.topics.create("orders", partitions=1, segment_bytes=64 * KIB)
        yield client


def publish(client: quiver.Client, values: list[bytes]) -> None:
    """A frame per value."""
    with client.producer("orders") as producer:
        for value in values:
            producer.send(value).result()


def values() -> list[bytes]:
    return [b"%d " % number + bytes(VALUE_BYTES) for number in range(MESSAGES)]


def orders_log(path: Path) -> LogReader:
    directory = DataDirectory(path)
    log = directory.log(partition_log(directory.topic("orders").id, 0), "orders-0")
    log.refresh()
    return log


def frames(log: LogReader, start: int, stop: int) -> list[StoredFrame]:
    return list(stored_frames(log, FrameRange(start, stop, AbortedFrames(()))))


def read_values(found: list[StoredFrame]) -> list[bytes | None]:
    return [value for stored in found for value in open_frame(stored.buffer, stored.position).values()]


def test_topics(client: quiver.Client, tmp_path: Path) -> None:
    client.topics.create("bills", partitions=7, cleanup="compact")
    topics = DataDirectory(tmp_path).topics()
    assert list(topics) == ["bills", "orders"]
    assert (topics["bills"].config.partitions, topics["bills"].config.is_compacted) == (7, True)
    client.topics.delete("bills")
    with pytest.raises(TopicNotFound, match=r"no topic 'bills' in .*; there are orders"):
        DataDirectory(tmp_path).topic("bills")
    (tmp_path / "cluster.json").touch()
    with pytest.raises(InvalidRequest, match=r"of a node of a cluster, .*: read through the brokers"):
        DataDirectory(tmp_path).topic("orders")


def test_a_directory_without_a_broker(tmp_path: Path) -> None:
    with pytest.raises(InvalidRequest, match="no data directory of a broker in"):
        DataDirectory(tmp_path)


def test_frames_of_a_range_over_many_segments(client: quiver.Client, tmp_path: Path) -> None:
    publish(client, values())
    log = orders_log(tmp_path)
    assert len(log.segments) > 3
    assert (log.start_offset, log.end_offset) == (0, MESSAGES)
    assert read_values(frames(log, 0, MESSAGES)) == values()
    assert read_values(frames(log, 17, 23)) == values()[17:23]
    publish(client, [b"later"])
    assert log.end_offset == MESSAGES, "as it was at the last refresh"
    log.refresh()
    assert read_values(frames(log, MESSAGES, log.end_offset)) == [b"later"]
    log.close()


def test_headers_without_bodies(client: quiver.Client, tmp_path: Path) -> None:
    publish(client, values()[:5])
    log = orders_log(tmp_path)
    found = list(stored_frames(log, FrameRange(0, 5, AbortedFrames(()), lambda header: header.base_offset == 2)))
    assert [stored.header.base_offset for stored in found] == [0, 1, 2, 3, 4]
    assert [len(stored.buffer) > HEADER_BYTES for stored in found] == [False, False, True, False, False]


def test_a_frame_that_is_being_written_is_not_there_yet(client: quiver.Client, tmp_path: Path) -> None:
    publish(client, values())
    client.close()
    path = orders_log(tmp_path).segments[-1].path
    path.write_bytes(path.read_bytes()[:-8])
    (path.parent / "reserved").unlink()
    log = orders_log(tmp_path)
    assert log.end_offset == MESSAGES - 1
    assert read_values(frames(log, 50, log.end_offset)) == values()[50 : MESSAGES - 1]


def test_what_retention_removes_meanwhile(client: quiver.Client, tmp_path: Path) -> None:
    publish(client, values())
    log = orders_log(tmp_path)
    first, second = log.segments[:2]
    scan = stored_frames(log, FrameRange(0, MESSAGES, AbortedFrames(())))
    assert next(scan).header.base_offset == 0
    for segment in (first, second):
        segment.path.unlink()
        segment.path.with_suffix(".index").unlink()
    seen: list[StoredFrame] = []
    with pytest.raises(OffsetOutOfRange) as caught:
        seen.extend(scan)
    assert [stored.header.base_offset for stored in seen] == list(range(1, second.base_offset)), "the file was open"
    earliest = caught.value.details["earliest"]
    assert (caught.value.details["offset"], earliest) == (second.base_offset, log.start_offset)
    assert read_values(frames(log, earliest, MESSAGES)) == values()[earliest:]


def test_transactions(client: quiver.Client, tmp_path: Path) -> None:
    publish(client, [b"plain"])
    producer = client.transactional("one")
    with producer.begin() as aborted:
        aborted.publish("orders", b"aborted")
        aborted.abort()
    with producer.begin() as committed:
        committed.publish("orders", b"committed")
    with producer.begin() as still_open:
        still_open.publish("orders", b"open")
        still_open.flush()
        log = orders_log(tmp_path)
        transactions = StoredTransactions(log)
        end = transactions.committed_end
        assert end == log.end_offset - 1, "where the open transaction begins"
        left_out = AbortedFrames([(producer, first) for producer, first, _ in transactions.aborted(0, end)])
        found = list(stored_frames(log, FrameRange(0, end, left_out)))
        assert read_values(found) == [b"plain", b"committed"]
    log.refresh()
    assert StoredTransactions(log).committed_end == log.end_offset


def test_nothing_is_changed(client: quiver.Client, tmp_path: Path) -> None:
    publish(client, values())
    client.close()
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    log = orders_log(tmp_path)
    assert len(frames(log, 0, MESSAGES)) == MESSAGES
    assert DataDirectory(tmp_path).group_names() == {}
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before
    with pytest.raises(OSError, match="Read-only"):
        log._files.write_file(tmp_path / "new", b"")
