"""The synchronous reader: against the fake broker, and its pure parts by themselves."""

import pyarrow as pa
import pytest

from quiver.client.message import messages_of
from quiver.client.read.arrow_batch import arrow_batch
from quiver.client.read.cursor import Cursor
from quiver.client.read.expiry import expiry_of
from quiver.client.read.options import reader_config
from quiver.model.errors import CorruptData, InvalidRequest, OffsetOutOfRange, PartitionNotFound, TopicNotFound
from quiver.model.limits import Limits
from quiver.model.position import EARLIEST, LATEST, Position
from quiver.protocol.messages import Failure, Fetch, FetchedPart
from quiver.records.build import build_frame
from quiver.records.header import stamp, unpack_header


def fill(q, topic: str, count: int, **options) -> None:
    with q.producer(topic, batch_messages=10) as out:
        for n in range(count):
            out.send(b"%d" % n, **options)


def stored(values: list[bytes], base_offset: int, **columns) -> bytes:
    frame = build_frame(values, timestamp_ms=5, **columns)
    stamped = stamp(frame, unpack_header(frame), base_offset=base_offset, leader_epoch=1, append_time_ms=9)
    return bytes(stamped.header_bytes) + bytes(stamped.body)


def part(length: int, high_watermark: int) -> FetchedPart:
    return FetchedPart(1, 0, length, 0, high_watermark, high_watermark, 1, [])


def test_messages_have_all_their_parts(q):
    place = q.publish("orders", {"id": 7}, key="k", headers={"h": "x"}, priority="low", timestamp=1234)
    (message,) = q.read("orders", end="latest")
    assert (message.topic, message.partition, message.offset) == place
    assert (message.key, message.value, message.json()) == (b"k", b'{"id":7}', {"id": 7})
    assert (message.headers, message.priority, message.timestamp) == ({"h": b"x"}, "low", 1234)
    assert message.append_time == 1_700_000_000_000
    assert "offset=0" in repr(message)


def test_a_value_that_is_not_json_says_so(q):
    q.publish("single", b"{")
    (message,) = q.read("single", end="latest")
    with pytest.raises(InvalidRequest, match="single-0 offset 0"):
        message.json()


@pytest.mark.parametrize(
    ("start", "end", "expected"),
    [("earliest", "latest", range(100)), (37, 43, range(37, 43)), (95, "latest", range(95, 100)), (50, 50, []),
     ({0: 98}, {0: 99}, [98]), (60, 20, [])],
)  # fmt: skip
def test_start_and_end(q, start, end, expected):
    fill(q, "single", 100)
    assert [message.offset for message in q.read("single", start=start, end=end)] == list(expected)


def test_chosen_partitions_only(q):
    fill(q, "orders", 90, partition=1)
    fill(q, "orders", 30, partition=2)
    assert sum(1 for _ in q.read("orders", end="latest", partitions=[2])) == 30
    assert sum(1 for _ in q.read("orders", end="latest", partitions=1)) == 90
    assert sum(1 for _ in q.read("orders", end="latest")) == 120


def test_batches_are_arrow(q):
    fill(q, "single", 25, key="k", headers={"a": "b"})
    batches = list(q.read("single", start=5, end=22).batches())
    table = pa.Table.from_batches(batches)
    assert table.column_names == [
        "partition", "offset", "timestamp", "append_time", "key", "value", "headers", "priority"
    ]  # fmt: skip
    assert table["offset"].to_pylist() == list(range(5, 22))
    assert table["value"].to_pylist() == [b"%d" % n for n in range(5, 22)]
    assert set(table["priority"].to_pylist()) == {"normal"}
    assert table["headers"][0].as_py() == [("a", b"b")]


def test_a_loop_that_is_left_goes_on_where_it_was(q):
    fill(q, "single", 100)
    reader = q.read("single", end="latest")
    seen = []
    for message in reader:
        seen.append(message.offset)
        if len(seen) == 33:
            break
    seen += [message.offset for message in reader]
    assert seen == list(range(100))


def test_opening_fixes_the_start(q):
    fill(q, "single", 5)
    with q.read("single", start="latest") as reader:
        q.publish("single", b"new")
        message = next(iter(reader))
    assert (message.offset, message.value) == (5, b"new")


def test_a_reader_follows_through_lost_connections(q, broker):
    got = []
    reader = q.read("single", max_wait=0.01)
    for n in range(30):
        q.publish("single", b"%d" % n)
        if n % 10 == 5:
            broker.disconnect()
        got.append(next(iter(reader)).value)
    assert got == [b"%d" % n for n in range(30)]


def test_a_refusal_that_may_pass_is_tried_again(q, broker):
    fill(q, "single", 3)
    left = [2]

    def fault(request):
        if isinstance(request, Fetch) and left[0]:
            left[0] -= 1
            return Failure("shutting_down", "in a moment", True)
        return None

    broker.fault = fault
    assert sum(1 for _ in q.read("single", end="latest")) == 3


def test_errors_reach_the_reader(q):
    with pytest.raises(TopicNotFound):
        next(iter(q.read("nowhere")))
    with pytest.raises(PartitionNotFound):
        q.read("single", partitions=3).open()
    for options in ({"start": "soon"}, {"end": -1}, {"partitions": [-1]}, {"max_bytes": 5}):
        with pytest.raises(InvalidRequest):
            q.read("single", **options)


def test_damage_is_reported_behind_the_good_frames(q, broker):
    fill(q, "single", 30)
    partition = broker.topics["single"].partitions[0]
    bad = bytearray(partition.frames[1])
    bad[-1] ^= 1
    partition.read = lambda offset: partition.frames[0] + bytes(bad) + partition.frames[2]  # type: ignore[method-assign]
    seen: list[int] = []
    with pytest.raises(CorruptData, match="single-0"):
        seen.extend(message.offset for message in q.read("single"))
    assert seen == list(range(unpack_header(partition.frames[0]).record_count))


def test_what_retention_removed_is_skipped_and_counted(q, broker):
    fill(q, "single", 20)
    earliest = unpack_header(broker.topics["single"].partitions[0].frames[0]).record_count
    normal = broker._answer

    def answer(request, payload):
        found, body = normal(request, payload)
        if isinstance(request, Fetch) and request.parts[0].offset < earliest:
            gone = OffsetOutOfRange(offset=0, topic="single", partition=0, earliest=earliest, latest=20)
            failed = FetchedPart(1, 0, 0, earliest, 20, 20, 1, [], Failure(gone.code, gone.message))
            return type(found)([failed]), b""
        if type(found).__name__ == "Offsets" and request.parts[0].position == EARLIEST:
            return type(found)([type(found.offsets[0])(earliest)]), b""
        return found, body

    broker._answer = answer
    reader = q.read("single", start=0, end=20)
    assert [message.offset for message in reader] == list(range(earliest, 20))
    assert reader.lost_count == earliest


def test_added_partitions_are_found(q, broker, monkeypatch):
    monkeypatch.setattr("quiver.client._sync.read.reader._LOOK_FOR_PARTITIONS_SECONDS", 0.0)
    q.publish("single", b"a")
    reader = q.read("single", max_wait=0.01)
    assert next(iter(reader)).value == b"a"
    broker.grow("single", 2)
    q.publish("single", b"b", partition=0)
    with q.producer("single") as out:
        out.send(b"c", partition=1)
    assert {next(iter(reader)).value for _ in range(2)} == {b"b", b"c"}


def test_a_cursor_skips_what_it_has_and_what_is_behind_its_end():
    data = stored([b"0", b"1"], 0) + stored([b"2", b"3"], 2) + stored([b"9"], 9)
    cursor = Cursor(0, 1, end=3)
    frames = list(cursor.take("t", part(len(data), 10), memoryview(data)))
    assert [(frame.header.base_offset, frame.start) for frame in frames] == [(0, 1), (2, 2)]
    assert cursor.is_finished
    values = [message.value for frame in frames for message in messages_of(frame.open("t", Limits(), 0.0), "t")]
    assert values == [b"1", b"2"]


def test_the_brokers_time_goes_on_while_a_reader_is_busy():
    """The frame arrived at 100 s of the monotonic clock, when it was 5,000 ms at the broker."""
    data = stored([b"own", b"topic", b"long", b"never"], 0, expires_at_ms=[6_000, None, 60_000, None])
    cursor, expiry = Cursor(0, 0), expiry_of(5_000, 100.0, None)
    [frame] = cursor.take("t", part(len(data), 4), memoryview(data), expiry=expiry)

    def values(at: float) -> list[bytes | None]:
        return [message.value for message in messages_of(frame.open("t", Limits(), at), "t")]

    assert values(100.9) == [b"own", b"topic", b"long", b"never"]
    assert values(101.0) == [b"topic", b"long", b"never"]
    assert values(155.0) == [b"topic", b"never"]
    assert arrow_batch(frame.open("t", Limits(), 155.0)).column("value").to_pylist() == [b"topic", b"never"]
    topics = frame._replace(expiry=expiry_of(5_000, 100.0, 6_000))  # they were appended at 9 ms
    assert [m.value for m in messages_of(topics.open("t", Limits(), 101.1), "t")] == [b"long"]
    assert topics.open("t", Limits(), 101.1).expired_count == 3
    assert frame._replace(expiry=expiry_of(0, 100.0, 1)).open("t", Limits(), 1e6).past is None  # an older broker


def test_only_what_is_asked_for_counts_as_expired():
    data = stored([b"0", b"1", b"2", b"3"], 0, expires_at_ms=[1, 1, None, 1])
    cursor = Cursor(0, 1, end=3)
    [frame] = cursor.take("t", part(len(data), 4), memoryview(data), expiry=expiry_of(5_000, 0.0, None))
    read = frame.open("t", Limits(), 0.0)
    assert read.expired_count == 1
    assert [message.value for message in messages_of(read, "t")] == [b"2"]


def test_a_cursor_drops_a_frame_that_is_cut_off():
    data = stored([b"0"], 0) + stored([b"1"], 1)
    cursor = Cursor(0, 0)
    assert len(list(cursor.take("t", part(len(data) - 1, 2), memoryview(data)[:-1]))) == 1
    assert cursor.offset == 1


def test_a_hole_before_the_end_is_crossed_once_the_broker_has_nothing_there():
    cursor = Cursor(0, 5, end=1_000_000)
    cursor.found_nothing()
    assert not cursor.is_finished
    cursor.readable_end = 1_000_000
    cursor.found_nothing()
    assert cursor.is_finished


def test_words_become_positions():
    options = reader_config(now_ms=10_000, start="-2s", end="latest", partitions=[1, 1, 0])
    assert (options.start, options.end, options.partitions) == (Position("time", 8000), LATEST, [1, 0])
    assert reader_config(now_ms=0, start={2: 5, 1: "latest"}).partitions == [1, 2]
    assert reader_config(now_ms=0).follows_growth
    assert not reader_config(now_ms=0, end=5).follows_growth
