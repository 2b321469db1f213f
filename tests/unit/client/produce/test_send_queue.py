"""Lanes against a broker's own memory of producers: every batch stored once and in order, whatever goes wrong."""

from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quiver.client.produce.batches.batch import Batch
from quiver.client.produce.batches.routing import RoutedRows
from quiver.client.produce.batches.send_outcome import SendOutcome
from quiver.client.produce.batches.send_queue import PartitionSendQueue
from quiver.client.produce.route import PLAIN_ROUTE
from quiver.client.produce.rows import Rows
from quiver.model.errors import OutOfSequence, QuiverError, UnknownProducer
from quiver.model.limits import SEQUENCE_LIMIT
from quiver.partition.producers import ProducerTable
from quiver.records.header import FrameHeader
from quiver.system.backoff import Backoff

_EMPTY_HEADER = FrameHeader(*([0] * 18))


def make_batch(serial: int, count: int = 1) -> Batch:
    rows = Rows.from_lists([b"%d" % serial] * count, timestamp_ms=1)
    batch = Batch([SendOutcome("t")], PLAIN_ROUTE, RoutedRows(0, rows, False), size=1, deadline=100.0)
    batch.serial = serial
    return batch


def make_queue(count: int, window: int = 16, pause: float = 0.0) -> PartitionSendQueue:
    queue = PartitionSendQueue((0, False), window, Backoff(pause, pause))
    queue.identity = (7, 0)
    queue.waiting.extend(make_batch(serial) for serial in range(count))
    return queue


def test_window_bounds_what_flies():
    queue = make_queue(5, window=2)
    first, second = queue.take(0.0), queue.take(0.0)
    assert queue.take(0.0) is None
    queue.acked(first)
    assert queue.take(0.0).serial == 2
    assert second.sequence == 1


def test_returned_batches_wait_for_the_rest_and_keep_their_numbers():
    queue = make_queue(4)
    batches = [queue.take(0.0) for _ in range(3)]
    queue.return_for_retry(batches[0], now=0.0)
    assert queue.take(1.0) is None
    queue.out_of_sequence(batches[2])
    queue.out_of_sequence(batches[1])
    assert [queue.take(1.0).serial for _ in range(4)] == [0, 1, 2, 3]
    assert [batch.sequence for batch in batches] == [0, 1, 2]
    assert not queue.needs_epoch


def test_nothing_goes_before_its_time():
    queue = make_queue(1, pause=5.0)
    queue.return_for_retry(queue.take(0.0), now=0.0)
    assert queue.take(4.9) is None
    assert queue.take(5.0) is not None


def test_a_head_out_of_sequence_asks_for_an_epoch_and_is_numbered_again():
    queue = make_queue(3)
    queue.next_sequence = 40
    head = queue.take(0.0)
    queue.out_of_sequence(head)
    assert queue.wants_epoch
    assert queue.take(0.0) is None
    queue.begin_epoch((7, 1))
    assert [queue.take(0.0).sequence for _ in range(3)] == [0, 1, 2]


def test_sequences_wrap():
    queue = make_queue(0)
    queue.next_sequence = SEQUENCE_LIMIT - 2
    queue.waiting.extend([make_batch(0, count=3), make_batch(1)])
    assert [queue.take(0.0).sequence for _ in range(2)] == [SEQUENCE_LIMIT - 2, 1]


def test_late_batches_are_taken_out():
    queue = make_queue(2)
    queue.waiting[0].deadline = 1.0
    assert [batch.serial for batch in queue.expired(2.0)] == [0]
    assert queue.take(2.0).serial == 1


@dataclass
class Broker:
    """The broker's side of one partition."""

    table: ProducerTable
    stored: list[int]

    def receive(self, queue: PartitionSendQueue, batch: Batch) -> None:
        producer_id, epoch = queue.identity
        header = _EMPTY_HEADER._replace(
            producer_id=producer_id, producer_epoch=epoch, base_sequence=batch.sequence, record_count=batch.count
        )
        if self.table.find_repeat(header) is None:
            self.table.record(header)
            self.stored.append(batch.serial)


def deliver(broker: Broker, queue: PartitionSendQueue, batch: Batch, fate: str) -> None:
    """One flight: it arrives or not, and its answer arrives or not."""
    if fate == "lost":
        queue.return_for_retry(batch, now=0.0)
        return
    if fate == "refused":
        queue.return_for_retry(batch, now=0.0)
        return
    try:
        broker.receive(queue, batch)
    except (OutOfSequence, UnknownProducer):
        queue.out_of_sequence(batch)
        return
    if fate == "answer lost":
        batch.is_uncertain = True
        queue.return_for_retry(batch, now=0.0)
    else:
        queue.acked(batch)


@given(
    st.integers(1, 12), st.lists(st.sampled_from(["fine", "lost", "refused", "answer lost"]), max_size=40), st.data()
)
def test_each_batch_is_stored_once_and_in_order(count: int, fates: list[str], data: st.DataObject):
    """Flights of a window may land in any order; after the script of faults everything goes well."""
    queue, broker = make_queue(count, window=4), Broker(ProducerTable(), [])
    script = iter(fates)
    for _ in range(500):
        if queue.is_empty:
            break
        if queue.wants_epoch:
            queue.begin_epoch((queue.identity[0], queue.identity[1] + 1))
        batches = []
        while (batch := queue.take(0.0)) is not None:
            batches.append(batch)
        for batch in data.draw(st.permutations(batches)):
            deliver(broker, queue, batch, next(script, "fine"))
    assert queue.is_empty
    assert broker.stored == list(range(count))


@pytest.mark.parametrize(
    "error", [OutOfSequence(producer_id=1, sequence=2, expected=1), UnknownProducer(producer_id=1)]
)
def test_a_batch_behind_an_open_one_is_no_reason_for_an_epoch(error: QuiverError):
    queue = make_queue(2)
    queue.take(0.0)
    second = queue.take(0.0)
    queue.out_of_sequence(second)
    assert not queue.needs_epoch
    assert error.code
