"""Stored frames by topic id: what one fetch returns, one under way while another is read, offsets."""

from collections.abc import Iterator

import pytest

import quiver
from quiver.client.read.fetched_frames import FetchedFrames
from quiver.model.errors import ConnectionLost, InvalidRequest, OffsetOutOfRange, RequestTimeout, TopicNotFound
from quiver.protocol.messages import Failure, Fetch
from quiver.records.build import build_frame
from quiver.records.header import HEADER_BYTES, stamp, unpack_header
from quiver.records.read import open_frame
from unit.client.fake_native_broker import FakeBroker

TOPIC_ID = 1


@pytest.fixture
def broker() -> Iterator[FakeBroker]:
    with FakeBroker(orders=2) as broker:
        yield broker


@pytest.fixture
def q(broker: FakeBroker) -> Iterator[quiver.Client]:
    with quiver.connect(broker.address, timeout=5) as q:
        for number in range(3):
            q.publish("orders", b"%d" % number, partition=0)
        yield q


def values_of(fetched: FetchedFrames) -> list[bytes | None]:
    found: list[bytes | None] = []
    for position, header, is_visible in fetched.headers():
        assert is_visible
        found += open_frame(fetched.buffer[position : position + header.frame_bytes]).values()
    return found


def test_a_fetch_returns_the_frames_from_an_offset_on(q: quiver.Client) -> None:
    fetched = q.frames.fetch(TOPIC_ID, 0, 1)
    assert values_of(fetched) == [b"1", b"2"]
    assert (fetched.readable_end(), fetched.readable_end("read_uncommitted")) == (3, 3)


def test_headers_without_bodies(q: quiver.Client) -> None:
    fetched = q.frames.fetch(TOPIC_ID, 0, 1, headers_only=True)
    found = [(header.base_offset, header.record_count) for _, header, _ in fetched.headers()]
    assert (found, len(fetched.buffer), fetched.headers_only) == ([(1, 1), (2, 1)], 2 * HEADER_BYTES, True)
    assert not q.frames.begin_fetch(TOPIC_ID, 0, 1).result(5).headers_only


def test_at_the_end_there_is_nothing(q: quiver.Client) -> None:
    fetched = q.frames.fetch(TOPIC_ID, 1, 0)
    assert not fetched.buffer
    assert list(fetched.headers()) == []


def test_one_fetch_is_under_way_while_another_is_read(q: quiver.Client, broker: FakeBroker) -> None:
    pending = [q.frames.begin_fetch(TOPIC_ID, 0, offset) for offset in (0, 2)]
    assert values_of(pending[1].result(5)) == [b"2"]
    assert values_of(pending[0].result(5)) == [b"0", b"1", b"2"]
    assert [request.parts[0].offset for request in broker.requests_of(Fetch)] == [0, 2]


def test_errors_of_the_broker_are_raised(q: quiver.Client, broker: FakeBroker) -> None:
    with pytest.raises(TopicNotFound):
        q.frames.fetch(99, 0, 0)
    gone = OffsetOutOfRange(offset=0, topic="orders", partition=0, earliest=2, latest=3)
    broker.fault = lambda request: Failure(gone.code, gone.message, False) if isinstance(request, Fetch) else None
    with pytest.raises(OffsetOutOfRange):
        q.frames.begin_fetch(TOPIC_ID, 0, 0).result(5)


def test_a_lost_connection_is_retried_by_fetch_and_told_by_a_pending_one(
    q: quiver.Client, broker: FakeBroker
) -> None:
    faults = iter(["drop", "drop"])
    broker.fault = lambda request: next(faults, None) if isinstance(request, Fetch) else None
    with pytest.raises(ConnectionLost):
        q.frames.begin_fetch(TOPIC_ID, 0, 0).result(5)
    assert values_of(q.frames.fetch(TOPIC_ID, 0, 0)) == [b"0", b"1", b"2"]


def test_a_fetch_without_an_answer_times_out(q: quiver.Client, broker: FakeBroker) -> None:
    broker.fault = lambda request: "ignore" if isinstance(request, Fetch) else None
    with pytest.raises(RequestTimeout, match=broker.address):
        q.frames.begin_fetch(TOPIC_ID, 0, 0).result("50ms")


def test_a_broker_that_is_not_there_is_told_by_the_result() -> None:
    q = quiver.connect("127.0.0.1:1", timeout=1, lazy=True)
    with pytest.raises(ConnectionLost):
        q.frames.begin_fetch(TOPIC_ID, 0, 0).result(5)
    q.close()


def test_offsets_by_topic_id(q: quiver.Client) -> None:
    assert q.frames.offsets(TOPIC_ID, {0: "earliest", 1: "latest"}) == {0: 0, 1: 0}
    assert q.frames.offsets(TOPIC_ID, {0: "latest"}) == {0: 3}
    with pytest.raises(InvalidRequest, match="isolation"):
        q.frames.offsets(TOPIC_ID, {0: "latest"}, isolation="none")


async def test_the_asynchronous_twin(broker: FakeBroker) -> None:
    async with quiver.connect_async(broker.address) as q:
        await q.publish("orders", b"a", partition=0)
        pending = await q.frames.begin_fetch(TOPIC_ID, 0, 0)
        assert values_of(await pending.result(5)) == [b"a"]


def frame(offset: int, producer: int, **attributes: bool) -> bytes:
    built = build_frame([b"x"], timestamp_ms=1, producer_id=producer, producer_epoch=0, base_sequence=0, **attributes)
    stamped = stamp(built, unpack_header(built), base_offset=offset, leader_epoch=1, append_time_ms=1)
    return bytes(stamped.header_bytes) + bytes(stamped.body)


def test_frames_of_aborted_transactions_and_control_frames_are_hidden() -> None:
    frames = [
        frame(0, 7, transactional=True),
        frame(1, 8, transactional=True),
        frame(2, 7, control=True),
        frame(3, 7, transactional=True),
    ]
    fetched = FetchedFrames(memoryview(b"".join(frames)), 0, 4, 3, [(7, 0)])
    assert [is_visible for _, _, is_visible in fetched.headers()] == [False, True, False, True]
    assert (fetched.readable_end(), fetched.readable_end("read_uncommitted")) == (3, 4)
