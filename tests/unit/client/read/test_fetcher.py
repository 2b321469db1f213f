"""Fetching ahead for partitions that come, go, pause and move, against the fake broker."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

import quiver
from quiver.client._sync.connection.reconnecting import ReconnectingConnection
from quiver.client._sync.read.fetcher import Fetcher
from quiver.client.connection.address import parse_bootstrap
from quiver.client.read.options import FetcherConfig
from quiver.client.read.partition_source import PartitionSource
from quiver.model.errors import OffsetOutOfRange, TopicNotFound
from quiver.protocol.messages import Failure, Fetch, Fetched, FetchedPart
from unit.client.fake_native_broker import FakeBroker


@pytest.fixture
def broker() -> Iterator[FakeBroker]:
    with FakeBroker(orders=8) as fake:
        yield fake


@contextmanager
def open_fetcher(broker: FakeBroker, timeout: float) -> Iterator[Fetcher]:
    link = ReconnectingConnection(parse_bootstrap(broker.address), timeout=timeout)
    yield Fetcher(link, FetcherConfig(1 << 20, 100, skips_missing=True))
    link.close()


@pytest.fixture
def fetcher(broker: FakeBroker) -> Iterator[Fetcher]:
    """It waits for a response however busy the machine is."""
    with open_fetcher(broker, timeout=30) as fetcher:
        yield fetcher


def fill(broker: FakeBroker, partition: int, count: int) -> None:
    """Frames of ten messages."""
    with quiver.connect(broker.address) as q, q.producer("orders") as out:
        for first in range(0, count, 10):
            out.send_many([b"%d" % n for n in range(first, first + 10)], partition=partition).result()


def source(partition: int, offset: int = 0) -> PartitionSource:
    return PartitionSource(1, "orders", partition, offset)


def check_taken(fetcher: Fetcher, wanted: dict[int, int]) -> None:
    """Exactly this comes: the offset after the last frame, by partition."""
    found: dict[int, int] = {}
    for _ in range(1_000):
        for part, frame in fetcher.next_frames():
            assert frame.start == found.get(part.partition, frame.start)
            found[part.partition] = frame.header.next_offset
        if found == wanted:
            break
    assert found == wanted
    assert not fetcher.next_frames()


def test_frames_of_all_partitions_come(broker: FakeBroker, fetcher: Fetcher) -> None:
    fill(broker, 0, 100)
    fill(broker, 3, 50)
    fetcher.add([source(0), source(3, 20)])
    check_taken(fetcher, {0: 100, 3: 50})


def test_a_partition_that_is_added_is_fetched_beside_the_others(broker: FakeBroker, fetcher: Fetcher) -> None:
    fill(broker, 1, 10)
    fetcher.add([source(0)])
    fetcher.next_frames()
    fetcher.add([source(1)])
    check_taken(fetcher, {1: 10})


def test_what_is_paused_or_gone_is_not_asked_for(broker: FakeBroker, fetcher: Fetcher) -> None:
    paused, gone, read = source(0), source(1), source(2)
    paused.is_paused = gone.is_gone = True
    for partition in range(3):
        fill(broker, partition, 10)
    fetcher.add([paused, gone, read])
    check_taken(fetcher, {2: 10})
    paused.is_paused = False
    check_taken(fetcher, {0: 10})


def test_what_was_under_way_for_another_place_is_void(broker: FakeBroker, fetcher: Fetcher) -> None:
    fill(broker, 0, 100)
    moved = source(0, 50)
    fetcher.add([moved])
    fetcher.next_frames()
    moved.move_to(10)
    frames: list[Any] = []
    while not frames or frames[-1].header.next_offset < 100:
        frames += (frame for _, frame in fetcher.next_frames())
    assert [frame.start for frame in frames] == list(range(10, 100, 10))


def test_few_requests_are_unread_at_any_time(broker: FakeBroker, fetcher: Fetcher) -> None:
    for partition in range(8):
        fill(broker, partition, 10)
        fetcher.add([source(partition)])
        fetcher._begin()
    assert len(broker.requests_of(Fetch)) <= 4
    check_taken(fetcher, dict.fromkeys(range(8), 10))


def test_a_silent_broker_is_asked_again_on_another_connection(broker: FakeBroker) -> None:
    fill(broker, 0, 10)
    ignored: list[object] = []

    def ignore_the_first(request: object) -> object:
        if isinstance(request, Fetch) and not ignored:
            ignored.append(request)
            return "ignore"
        return None

    broker.fault = ignore_the_first  # type: ignore[assignment]
    with open_fetcher(broker, timeout=0.3) as fetcher:
        fetcher.add([source(0)])
        found = 0
        while not found:
            fetcher.wake()
            found = len(fetcher.next_frames())
    assert ignored


def test_a_lost_connection_costs_nothing(broker: FakeBroker, fetcher: Fetcher) -> None:
    fill(broker, 0, 10)
    fetcher.add([source(0)])
    fetcher.next_frames()
    broker.disconnect()
    fill(broker, 0, 10)
    check_taken(fetcher, {0: 20})


class Answers:
    """A fake broker's fetches, answered by hand."""

    def __init__(self, broker: FakeBroker, *parts: FetchedPart) -> None:
        self._parts = list(parts)
        broker._fetch = self._fetch  # type: ignore[method-assign]

    def _fetch(self, request: Fetch) -> tuple[Fetched, bytes]:
        part = self._parts.pop(0) if len(self._parts) > 1 else self._parts[0]
        return Fetched([part for _ in request.parts]), b""


def nothing(high_watermark: int, error: Failure | None = None) -> FetchedPart:
    return FetchedPart(1, 0, 0, 0, high_watermark, high_watermark, 1, [], error)


def test_a_hole_before_a_known_end_is_stepped_over(broker: FakeBroker, fetcher: Fetcher) -> None:
    Answers(broker, nothing(100))
    part = source(0, 7)
    fetcher.add([part])
    fetcher.next_frames()
    assert part.position == 7, "the end may have been reached only after the reading"
    fetcher.next_frames()
    assert (part.position, part.cursor.offset) == (100, 100)


def test_a_hole_is_not_stepped_over_while_messages_before_it_are_at_work(
    broker: FakeBroker, fetcher: Fetcher
) -> None:
    Answers(broker, nothing(100))
    part = source(0, 7)
    part.position = 5
    fetcher.add([part])
    for _ in range(3):
        fetcher.next_frames()
    assert part.position == 5


def test_what_retention_removed_is_stepped_over_and_counted(broker: FakeBroker, fetcher: Fetcher) -> None:
    gone = OffsetOutOfRange(offset=0, topic="orders", partition=0, earliest=5, latest=9)
    Answers(broker, nothing(0, Failure(gone.code, gone.message)), nothing(0))
    fetcher._earliest = lambda source: 5  # type: ignore[method-assign]
    part = source(0, 2)
    fetcher.add([part])
    fetcher.next_frames()
    assert (part.position, part.cursor.offset, fetcher.lost_count) == (5, 5, 3)


def test_a_topic_that_is_gone_is_left_alone(broker: FakeBroker, fetcher: Fetcher) -> None:
    gone = TopicNotFound(topic="orders")
    Answers(broker, nothing(0, Failure(gone.code, gone.message)))
    part = source(0)
    fetcher.add([part])
    fetcher.next_frames()
    assert part.is_gone


def test_an_offset_that_never_was_is_an_error(broker: FakeBroker, fetcher: Fetcher) -> None:
    gone = OffsetOutOfRange(offset=99, topic="orders", partition=0, earliest=0, latest=9)
    Answers(broker, nothing(0, Failure(gone.code, gone.message)))
    fetcher.add([source(0, 99)])
    with pytest.raises(OffsetOutOfRange):
        fetcher.next_frames()
