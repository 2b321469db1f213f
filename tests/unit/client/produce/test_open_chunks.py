"""What a producer gathers: which messages share a chunk, when chunks are sealed, and what is unsettled."""

import pytest

from quiver.client.produce.batches.batch_router import BatchRouter
from quiver.client.produce.batches.in_flight import InFlightBatches
from quiver.client.produce.batches.routing import Router
from quiver.client.produce.batches.send_outcome import SendOutcome
from quiver.client.produce.batches.unsettled import Unsettled
from quiver.client.produce.chunk import BulkRows, Outgoing
from quiver.client.produce.open_chunks import OpenChunks
from quiver.client.produce.options import ProducerConfig
from quiver.client.produce.route import PLAIN_ROUTE, Route
from quiver.client.produce.rows import Rows
from quiver.model.errors import Closed, DiskFull, PartitionNotFound
from quiver.system.backoff import Backoff

LARGE = 1_000_000


class SetClock:
    def __init__(self) -> None:
        self.seconds = 100.0

    def now_ms(self) -> int:
        return round(self.seconds * 1000)

    def monotonic(self) -> float:
        return self.seconds


class Gathering:
    def __init__(self, **config: object) -> None:
        self.clock = SetClock()
        self.unsettled = Unsettled()
        self.chunks = OpenChunks("t", ProducerConfig(**config), self.unsettled, self.clock)  # type: ignore[arg-type]

    def add(self, value: bytes = b"0123456789", route: Route = PLAIN_ROUTE):
        return self.chunks.add(Outgoing(value, None, None, None, None), route, len(value), LARGE)

    def ready_counts(self) -> list[int]:
        return [len(pending.rows()) for pending in self.chunks.ready]


def test_messages_of_a_route_share_a_chunk_until_it_is_full():
    gathering = Gathering(batch_messages=3)
    added = [gathering.add() for _ in range(4)]
    assert [(each.row, each.is_first, each.is_full) for each in added] == [
        (0, True, False),
        (1, False, False),
        (2, False, True),
        (0, True, False),
    ]
    assert gathering.ready_counts() == [3]
    assert (gathering.unsettled.count, gathering.unsettled.size_bytes) == (1, 30)


def test_a_message_that_would_make_a_chunk_too_large_begins_another_one():
    gathering = Gathering(batch_bytes=25)
    rows = [gathering.add().row for _ in range(3)]
    assert rows == [0, 1, 0]
    assert gathering.ready_counts() == [2]


def test_other_routes_have_chunks_of_their_own():
    gathering = Gathering()
    gathering.add()
    assert gathering.add(route=Route(0, None)).row == 0
    assert gathering.add(route=Route(0, 1)).row == 0
    assert gathering.add(route=Route(0, None)).row == 1


def test_what_has_lingered_is_sealed_and_everything_when_it_is_urgent():
    gathering = Gathering(linger_seconds=1.0)
    gathering.add()
    gathering.clock.seconds += 0.6
    gathering.add(route=Route(0, None))
    assert gathering.chunks.linger_left() == pytest.approx(0.4)
    gathering.chunks.seal_due()
    assert gathering.ready_counts() == []
    gathering.clock.seconds += 0.4
    gathering.chunks.seal_due()
    assert len(gathering.chunks.ready) == 1
    gathering.chunks.flushing = 1
    gathering.chunks.seal_due()
    assert len(gathering.chunks.ready) == 2
    assert gathering.chunks.linger_left() is None


def test_rows_that_come_as_a_whole_go_after_what_was_gathered_before():
    gathering = Gathering()
    gathering.add()
    rows = Rows.from_lists([b"a", b"b"], timestamp_ms=1)
    gathering.chunks.add_rows(BulkRows(rows, PLAIN_ROUTE, SendOutcome("t"), 2))
    assert gathering.ready_counts() == [1, 2]


def test_nothing_is_taken_after_the_end():
    gathering = Gathering()
    gathering.chunks.close()
    with pytest.raises(Closed):
        gathering.add()


def in_flight() -> InFlightBatches:
    return InFlightBatches(lambda: Backoff(0.0, 0.0), idempotent=True)


def test_rows_are_counted_once_and_then_as_their_batches():
    unsettled, sent, outcome = Unsettled(), in_flight(), SendOutcome("t")
    rows = Rows.from_lists([b"%d" % n for n in range(100)], keys=[b"%d" % n for n in range(100)], timestamp_ms=1)
    pending = BulkRows(rows, PLAIN_ROUTE, outcome, 1000)
    unsettled.add(pending.size, 1)
    changes: list[int] = []
    BatchRouter(Router("t", 0), sent, unsettled, ProducerConfig()).place([pending], 4, deadline=9.0)
    assert (unsettled.count, unsettled.size_bytes) == (4, 1000)
    unsettled.progress.add(lambda: changes.append(unsettled.count))
    taken = [batch for _, batch in sent.take(0.0, (7, 0))]
    for batch in taken:
        unsettled.settle(batch, base_offset=0)
    outcome.is_complete = True
    assert (unsettled.count, unsettled.size_bytes, outcome.is_settled) == (0, 0, True)
    assert changes == [3]


def test_rows_for_a_partition_that_is_not_there_fail():
    unsettled, outcome = Unsettled(), SendOutcome("t")
    pending = BulkRows(Rows.from_lists([b"a"], timestamp_ms=1), Route(2, 9), outcome, 1)
    unsettled.add(1, 1)
    BatchRouter(Router("t", 0), in_flight(), unsettled, ProducerConfig()).place([pending], 4, deadline=9.0)
    assert unsettled.count == 0
    with pytest.raises(PartitionNotFound):
        unsettled.raise_unseen()


def test_a_failure_that_a_future_has_reported_is_not_raised_again():
    unsettled, sent, outcome = Unsettled(), in_flight(), SendOutcome("t")
    pending = BulkRows(Rows.from_lists([b"a"], timestamp_ms=1), PLAIN_ROUTE, outcome, 1)
    unsettled.add(1, 1)
    BatchRouter(Router("t", 0), sent, unsettled, ProducerConfig()).place([pending], 1, deadline=9.0)
    [(_, batch)] = sent.take(0.0, (7, 0))
    unsettled.settle(batch, error=DiskFull("no space left"))
    assert isinstance(outcome.result_of(0), DiskFull)
    unsettled.raise_unseen()
