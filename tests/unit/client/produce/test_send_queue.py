"""Lanes against a broker's own memory of producers: every batch stored once and in order, whatever goes wrong."""

from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quiver.client.produce.rows import Rows
from quiver.client.produce.send_outcome import Batch, Delivery
from quiver.client.produce.send_queue import SEQUENCE_LIMIT, Lane
from quiver.model.errors import OutOfSequence, QuiverError, UnknownProducer
from quiver.partition.producers import ProducerTable
from quiver.records.header import FrameHeader

_EMPTY_HEADER = FrameHeader(*([0] * 18))


def make_batch(serial: int, count: int = 1) -> Batch:
    rows = Rows.from_lists([b"%d" % serial] * count, timestamp_ms=1)
    batch = Batch(Delivery("t"), rows, 0, chosen=None, hashed=False, priority=2, size=1, deadline=100.0)
    batch.serial = serial
    return batch


def make_lane(count: int, window: int = 16) -> Lane:
    lane = Lane((0, False), window)
    lane.identity = (7, 0)
    lane.waiting.extend(make_batch(serial) for serial in range(count))
    return lane


def test_window_bounds_what_flies():
    lane = make_lane(5, window=2)
    first, second = lane.take(0.0), lane.take(0.0)
    assert lane.take(0.0) is None
    lane.acked(first)
    assert lane.take(0.0).serial == 2
    assert second.sequence == 1


def test_returned_batches_wait_for_the_rest_and_keep_their_numbers():
    lane = make_lane(4)
    batches = [lane.take(0.0) for _ in range(3)]
    lane.came_back(batches[0], retry_at=0.0)
    assert lane.take(1.0) is None
    lane.out_of_sequence(batches[2])
    lane.out_of_sequence(batches[1])
    assert [lane.take(1.0).serial for _ in range(4)] == [0, 1, 2, 3]
    assert [batch.sequence for batch in batches] == [0, 1, 2]
    assert not lane.needs_epoch


def test_nothing_goes_before_its_time():
    lane = make_lane(1)
    lane.came_back(lane.take(0.0), retry_at=5.0)
    assert lane.take(4.9) is None
    assert lane.take(5.0) is not None


def test_a_head_out_of_sequence_asks_for_an_epoch_and_is_numbered_anew():
    lane = make_lane(3)
    lane.next_sequence = 40
    head = lane.take(0.0)
    lane.out_of_sequence(head)
    assert lane.wants_epoch
    assert lane.take(0.0) is None
    lane.begin_epoch((7, 1))
    assert [lane.take(0.0).sequence for _ in range(3)] == [0, 1, 2]


def test_sequences_wrap():
    lane = Lane((0, False), 16)
    lane.next_sequence = SEQUENCE_LIMIT - 2
    lane.waiting.extend([make_batch(0, count=3), make_batch(1)])
    assert [lane.take(0.0).sequence for _ in range(2)] == [SEQUENCE_LIMIT - 2, 1]


def test_late_batches_are_taken_out():
    lane = make_lane(2)
    lane.waiting[0].deadline = 1.0
    assert [batch.serial for batch in lane.expired(2.0)] == [0]
    assert lane.take(2.0).serial == 1


@dataclass
class Broker:
    """The broker's side of one partition."""

    table: ProducerTable
    stored: list[int]

    def receive(self, lane: Lane, batch: Batch) -> None:
        producer_id, epoch = lane.identity
        header = _EMPTY_HEADER._replace(
            producer_id=producer_id, producer_epoch=epoch, base_sequence=batch.sequence, record_count=batch.count
        )
        if self.table.find_repeat(header) is None:
            self.table.record(header)
            self.stored.append(batch.serial)


def deliver(broker: Broker, lane: Lane, batch: Batch, fate: str) -> None:
    """One flight: it arrives or not, and its answer arrives or not."""
    if fate == "lost":
        lane.came_back(batch, retry_at=0.0)
        return
    if fate == "refused":
        lane.came_back(batch, retry_at=0.0)
        return
    try:
        broker.receive(lane, batch)
    except (OutOfSequence, UnknownProducer):
        lane.out_of_sequence(batch)
        return
    if fate == "answer lost":
        batch.is_uncertain = True
        lane.came_back(batch, retry_at=0.0)
    else:
        lane.acked(batch)


@given(
    st.integers(1, 12), st.lists(st.sampled_from(["fine", "lost", "refused", "answer lost"]), max_size=40), st.data()
)
def test_each_batch_is_stored_once_and_in_order(count: int, fates: list[str], data: st.DataObject):
    """Flights of a window may land in any order; after the script of faults everything goes well."""
    lane, broker = make_lane(count, window=4), Broker(ProducerTable(), [])
    script = iter(fates)
    for _ in range(500):
        if lane.is_empty:
            break
        if lane.wants_epoch:
            lane.begin_epoch((lane.identity[0], lane.identity[1] + 1))
        flights = []
        while (batch := lane.take(0.0)) is not None:
            flights.append(batch)
        for batch in data.draw(st.permutations(flights)):
            deliver(broker, lane, batch, next(script, "fine"))
    assert lane.is_empty
    assert broker.stored == list(range(count))


@pytest.mark.parametrize(
    "error", [OutOfSequence(producer_id=1, sequence=2, expected=1), UnknownProducer(producer_id=1)]
)
def test_a_batch_behind_an_open_one_is_no_reason_for_an_epoch(error: QuiverError):
    lane = make_lane(2)
    lane.take(0.0)
    second = lane.take(0.0)
    lane.out_of_sequence(second)
    assert not lane.needs_epoch
    assert error.code
