"""The pure parts of transactions in the SDK."""

import math

import pytest

from quiver.client.produce.batches.batch import Batch
from quiver.client.produce.batches.in_flight import InFlightBatches
from quiver.client.produce.batches.routing import RoutedRows
from quiver.client.produce.batches.send_outcome import SendOutcome
from quiver.client.produce.options import ProducerConfig
from quiver.client.produce.route import PLAIN_ROUTE
from quiver.client.produce.rows import Rows
from quiver.client.read.partition_source import PartitionSource
from quiver.client.stream.offsets import StreamOffsets
from quiver.client.transaction.acks import Enlisted, leased_acks
from quiver.client.transaction.state import TransactionState
from quiver.client.work.held_run import HeldRun
from quiver.model.errors import (
    InvalidRequest,
    MemberFenced,
    OutOfSequence,
    ProducerFenced,
    StalePartitionCount,
    UnknownProducer,
)
from quiver.model.transaction import LeasedAcks
from quiver.protocol.queue_messages import ReceivedRun
from quiver.records.build import build_frame
from quiver.records.header import unpack_header
from quiver.system.backoff import Backoff

ME = (7, 3)


def batch(count: int = 2, *, hashed: bool = True, partition: int = 0) -> Batch:
    rows = Rows.from_lists([b"x"] * count, timestamp_ms=1)
    part = RoutedRows(partition, rows, hashed)
    return Batch([SendOutcome("t")], PLAIN_ROUTE, part, size=count, deadline=math.inf)


def in_flight_with(*batches: Batch) -> InFlightBatches:
    in_flight = InFlightBatches(lambda: Backoff(0.0, 0.0), idempotent=True, is_transactional=True)
    in_flight.enqueue(batches)
    return in_flight


def refuse(in_flight: InFlightBatches, sent, error) -> bool:
    return in_flight.refused(*sent, error, now=0.0, was_sent=True)


def test_frames_carry_the_transaction():
    first = batch()
    in_flight = in_flight_with(first)
    [(queue, taken)] = in_flight.take(0.0, ME)
    header = unpack_header(taken.build(queue.identity, ProducerConfig(is_transactional=True)))
    assert header.is_transactional
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (*ME, 0)


def test_sequences_begin_at_0_in_every_transaction():
    in_flight = in_flight_with(batch(), batch())
    all_sent = in_flight.take(0.0, ME)
    assert [taken.sequence for _, taken in all_sent] == [0, 2]
    for sent in all_sent:
        assert in_flight.acked(*sent)
    in_flight.begin_transaction()
    in_flight.enqueue([batch()])
    [(queue, taken)] = in_flight.take(0.0, (7, 4))
    assert (taken.sequence, queue.identity) == (0, (7, 4))


def test_numbers_that_cannot_be_repaired_end_the_transaction():
    for error in (OutOfSequence("x"), UnknownProducer("x"), ProducerFenced("x")):
        in_flight = in_flight_with(batch())
        [sent] = in_flight.take(0.0, ME)
        assert refuse(in_flight, sent, error)
        assert in_flight.wanting_epoch() == []


def test_what_is_out_of_sequence_behind_an_open_one_waits():
    in_flight = in_flight_with(batch(), batch())
    first, second = in_flight.take(0.0, ME)
    assert not refuse(in_flight, second, OutOfSequence("x"))
    assert in_flight.acked(*first)
    [again] = in_flight.take(0.0, ME)
    assert again[1].sequence == 2


def test_a_place_that_was_given_up_takes_no_answers():
    in_flight = in_flight_with(batch())
    [sent] = in_flight.take(0.0, ME)
    assert list(in_flight.take_all(in_flight_too=True)) == [sent[1]]
    assert not in_flight.acked(*sent)
    assert not refuse(in_flight, sent, ProducerFenced("x"))
    assert not in_flight.has_work


def test_what_was_hashed_by_an_old_count_leaves_no_hole_in_the_numbers():
    keyed, plain = batch(2), batch(3, hashed=False)
    in_flight = in_flight_with(keyed, plain)
    first, second = in_flight.take(0.0, ME)
    second[1].build(ME, ProducerConfig())
    assert not refuse(in_flight, first, StalePartitionCount("x"))
    assert not refuse(in_flight, second, OutOfSequence("x"))
    assert in_flight.withdraw(is_new_topic=False) == [keyed]
    [(_, taken)] = in_flight.take(0.0, ME)
    assert taken is plain
    assert unpack_header(taken.build(ME, ProducerConfig())).base_sequence == 0


def run_of(lease: int, offsets: range) -> HeldRun:
    frame = build_frame([b"x"] * len(offsets), timestamp_ms=1)
    received = ReceivedRun(1, 0, 5, lease, offsets.start, offsets.stop, 1, 30_000, 30_000, 0, "", len(frame))
    return HeldRun(received, "t", memoryview(frame), 0.0)


def test_acks_are_gathered_by_lease():
    one, two = run_of(1, range(10)), run_of(2, range(10))
    enlisted = [
        Enlisted([(one, 3, 4)], bool),
        Enlisted([(two, 0, 10)], bool),
        Enlisted([(one, 4, 6), (one, 8, 9)], bool),
        Enlisted([(one, 2, 3)], bool),
    ]
    assert leased_acks(enlisted) == [LeasedAcks(1, 0, 5, 1, [(2, 6), (8, 9)]), LeasedAcks(1, 0, 5, 2, [(0, 10)])]


def test_offsets_of_a_stream_are_those_that_moved_and_are_held():
    moved, idle = PartitionSource(1, "t", 0, 5), PartitionSource(1, "t", 1, 5)
    moved.position = 9
    taken = StreamOffsets("g", [moved, idle])
    sent = taken.request("me", 3, [moved, idle])
    assert (sent.group, sent.member_id, sent.generation) == ("g", "me", 3)
    assert [(part.partition, part.offset) for part in sent.offsets] == [(0, 9)]
    with pytest.raises(MemberFenced, match="t-0"):
        taken.request("me", 4, [idle])
    moved.position = 12
    taken.committed()
    assert not StreamOffsets("g", [idle])
    moved.go_back()
    assert moved.position == 9
    assert not StreamOffsets("g", [moved])


def test_a_state_says_what_it_is():
    with pytest.raises(InvalidRequest, match="is aborted, not open"):
        TransactionState.ABORTED.check(TransactionState.OPEN)
    TransactionState.OPEN.check(TransactionState.OPEN)
