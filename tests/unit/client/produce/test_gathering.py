"""Messages by key over many partitions: what gathers while enough is in flight is split together, in few frames."""

import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

import quiver
from quiver.client.produce.batches.batch import Batch, batches_of
from quiver.client.produce.batches.in_flight import ENOUGH_IN_FLIGHT
from quiver.client.produce.batches.routing import Router
from quiver.client.produce.batches.send_outcome import Placement, SendOutcome
from quiver.client.produce.options import BatchLimits
from quiver.client.produce.published import Span
from quiver.client.produce.route import PLAIN_ROUTE
from quiver.client.produce.rows import Rows
from quiver.model.errors import Closed, RequestTimeout
from quiver.protocol.messages import Produce
from quiver.records.read import open_frame
from unit.client.fake_native_broker import FakeBroker

PARTITIONS = ENOUGH_IN_FLIGHT + 44
KEYS = [b"%d" % number for number in range(8 * PARTITIONS)]
"""So many that every partition has some, or nearly."""


@pytest.fixture
def held():
    """A broker that keeps its first frame until it is told to go on."""
    with FakeBroker(wide=PARTITIONS) as broker:
        go_on = threading.Event()

        def fault(request):
            if isinstance(request, Produce):
                go_on.wait(30)

        broker.fault = fault
        yield broker, go_on
        go_on.set()


def test_messages_gather_while_enough_is_in_flight_and_keep_their_order(held):
    broker, go_on = held
    with quiver.connect(broker.address, timeout=10) as q, q.producer("wide") as out:
        futures = [out.send_many([b"%d-%s" % (turn, key) for key in KEYS], keys=KEYS) for turn in range(5)]
        assert not any(future.done for future in futures)
        assert [future.count for future in futures] == [len(KEYS)] * 5
        go_on.set()
        spans = [future.result(30) for future in futures]
    partitions = broker.topics["wide"].partitions
    assert max(len(partition.frames) for partition in partitions) == 2
    for partition in partitions:
        turns: dict[bytes, list[int]] = {}
        for value in partition.values():
            turn, _, key = value.partition(b"-")
            turns.setdefault(key, []).append(int(turn))
        assert all(found == [0, 1, 2, 3, 4] for found in turns.values())
    for turn, found in enumerate(spans):
        stored = [
            value
            for span in found
            for value in partitions[span.partition].values()[span.offset :][: span.message_count]
        ]
        assert sorted(stored) == sorted(b"%d-%s" % (turn, key) for key in KEYS)


def test_single_messages_gather_too_and_each_future_knows_its_place(held):
    broker, go_on = held
    with quiver.connect(broker.address, timeout=10) as q, q.producer("wide", batch_messages=len(KEYS)) as out:
        sent = [(b"%d-%s" % (turn, key), out.send(b"%d-%s" % (turn, key), key)) for turn in range(4) for key in KEYS]
        go_on.set()
        places = [(value, future.result(30)) for value, future in sent]
    stored = [partition.values() for partition in broker.topics["wide"].partitions]
    assert all(stored[place.partition][place.offset] == value for value, place in places)


def test_a_lost_connection_doubles_and_loses_nothing_of_what_gathered(held):
    broker, go_on = held
    with quiver.connect(broker.address, timeout=10) as q, q.producer("wide") as out:
        for turn in range(4):
            out.send_many([b"%d-%s" % (turn, key) for key in KEYS], keys=KEYS)
        broker.disconnect()
        go_on.set()
    assert sorted(broker.topics["wide"].values()) == sorted(
        b"%d-%s" % (turn, key) for turn in range(4) for key in KEYS
    )


def test_frames_stay_within_the_limits_of_a_batch_when_all_have_one_key():
    with FakeBroker(wide=PARTITIONS) as broker, quiver.connect(broker.address, timeout=10) as q:
        with q.producer("wide", batch_bytes=1000, batch_messages=40) as out:
            out.send_many([b"x" * 30] * 1000, keys=[b"one"] * 1000)
        [partition] = [each for each in broker.topics["wide"].partitions if each.frames]
        frames = [open_frame(frame) for frame in partition.frames]
    assert sum(map(len, frames)) == 1000
    assert max(map(len, frames)) <= 1000 // 33


def test_closing_fails_what_gathered(held):
    broker, _ = held
    with quiver.connect(broker.address, timeout=10) as q:
        out = q.producer("wide")
        futures = [out.send_many(KEYS, keys=KEYS) for _ in range(3)]
        with pytest.raises(RequestTimeout):
            out.close(timeout=0.05)
    assert all(future.done for future in futures)
    for future in futures:
        with pytest.raises(Closed):
            future.result(10)


def rows(values: list[bytes], timestamp_ms: int, **columns: list) -> Rows:
    return Rows.from_lists(values, timestamp_ms=timestamp_ms, **columns)


def test_rows_that_are_joined_keep_their_columns_and_their_times():
    plain = rows([b"a", b"b"], 5, keys=[b"k", None])
    full = rows([b"c", None], 7, ids=[b"i", None], headers=[{"h": b"1"}, None], timestamps_ms=[1, None])
    joined = Rows.joined([plain, full])
    opened = open_frame(joined.seal(), verify=False)
    assert opened.values() == [b"a", b"b", b"c", None]
    assert opened.keys() == [b"k", None, None, None]
    assert opened.ids() == [None, None, b"i", None]
    assert opened.headers() == [{}, {}, {"h": b"1"}, {}]
    assert opened.timestamps() == [5, 5, 1, 7]
    assert open_frame(Rows.joined([plain, plain]).seal(), verify=False).header.max_timestamp_ms == 5


@given(st.lists(st.lists(st.binary(max_size=2), min_size=1, max_size=20), min_size=1, max_size=5), st.data())
def test_the_rows_of_each_outcome_are_found_among_those_that_were_split_together(sets: list[list[bytes]], data):
    count, again = data.draw(st.integers(1, 6)), data.draw(st.integers(1, 9))
    limits = BatchLimits(2**40, data.draw(st.integers(1, 30)))
    parts = [
        rows([b"%d-%d" % (number, row) for row in range(len(keys))], 1, keys=keys) for number, keys in enumerate(sets)
    ]
    outcomes = [SendOutcome("t") for _ in sets]
    routed = Router("t", 0).route(Rows.joined(parts), None, count, lambda number: False, limits)
    batches = batches_of(routed, outcomes, PLAIN_ROUTE, 100, 9.0)
    assert all(batch.count <= limits.messages for batch in batches)
    placement, start = Placement(batches, routed.order), 0
    for outcome, part in zip(outcomes, parts, strict=True):
        outcome.count, outcome.is_complete = len(part), True
        assert not outcome.is_settled
        outcome.place(placement, start, start + len(part))
        start += len(part)
    moved = batches[data.draw(st.integers(0, len(batches) - 1))]
    other = Router("t", 0).route(moved.open_rows(), None, again, lambda number: False)
    moved.placement = Placement(batches_of(other, outcomes, PLAIN_ROUTE, moved.size, 9.0), other.order)
    leaves = [*(batch for batch in batches if batch is not moved), *moved.placement.batches]
    stored: dict[tuple[int, int], bytes] = {}
    for base, batch in enumerate(data.draw(st.permutations(leaves))):
        assert all(outcome.is_settled for outcome in outcomes) is False
        settle(batch, 1000 * base, stored)
    for number, outcome in enumerate(outcomes):
        assert outcome.is_settled
        found = outcome.spans()
        assert not isinstance(found, Exception)
        values = [stored[span.partition, span.offset + n] for span in found for n in range(span.message_count)]
        assert sorted(values) == sorted(b"%d-%d" % (number, row) for row in range(len(sets[number])))
        for row in range(len(sets[number])):
            _, partition, offset = outcome.result_of(row)
            assert stored[partition, offset] == b"%d-%d" % (number, row)


def settle(batch: Batch, base_offset: int, stored: dict[tuple[int, int], bytes]) -> None:
    for place, value in enumerate(batch.open_rows().arrays[0].to_pylist()):
        stored[batch.partition, base_offset + place] = value
    batch.base_offset = base_offset


def test_an_outcome_does_not_wait_for_batches_that_have_only_messages_of_others():
    mine, other = SendOutcome("t"), SendOutcome("t")
    parts = [rows([b"m"], 1, keys=[b"a"]), rows([b"o"], 1, keys=[b"c"])]
    routed = Router("t", 0).route(Rows.joined(parts), None, 4, lambda number: False)
    placement = Placement(batches_of(routed, [mine, other], PLAIN_ROUTE, 2, 9.0), routed.order)
    for start, outcome in enumerate((mine, other)):
        outcome.count, outcome.is_complete = 1, True
        outcome.place(placement, start, start + 1)
    batch, _ = placement.locate(0)
    batch.base_offset = 7
    assert (mine.is_settled, other.is_settled) == (True, False)
    assert mine.spans() == [Span("t", batch.partition, 7, 1)]
