import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from quiver.client.produce.batches.batch import Batch, batches_of
from quiver.client.produce.batches.routing import Router
from quiver.client.produce.batches.send_outcome import Placement, SendOutcome
from quiver.client.produce.published import Published, Span
from quiver.client.produce.route import PLAIN_ROUTE
from quiver.client.produce.rows import Rows
from quiver.model.errors import DiskFull, TopicNotFound


def routed(outcome: SendOutcome, rows: Rows, count: int) -> Placement:
    found = Router("t", 0).route(rows, None, count, lambda number: False)
    return Placement(batches_of(found, [outcome], PLAIN_ROUTE, 100, 9.0), found.order)


def settle(batch: Batch, base_offset: int) -> None:
    batch.base_offset = base_offset


@given(st.lists(st.binary(max_size=4), min_size=1, max_size=50), st.integers(1, 6))
def test_every_row_is_found_where_it_went(keys: list[bytes], count: int):
    outcome = SendOutcome("t")
    rows = Rows.from_lists([b"%d" % row for row in range(len(keys))], keys=keys, timestamp_ms=1)
    placement = routed(outcome, rows, count)
    outcome.place(placement, 0, len(keys))
    assert sum(batch.size for batch in placement.batches) == 100
    for row in range(len(keys)):
        batch, place = placement.locate(row)
        assert batch.open_rows().arrays[0][place].as_py() == b"%d" % row


def test_a_batch_that_was_split_again_is_followed():
    outcome = SendOutcome("t")
    rows = Rows.from_lists([b"0", b"1", b"2"], keys=[b"a", b"b", b"c"], timestamp_ms=1)
    first = routed(outcome, rows, 1)
    outcome.place(first, 0, 3)
    outer = first.batches[0]
    outer.placement = routed(outcome, outer.open_rows(), 5)
    assert not outcome.is_known(1)
    for batch in outer.placement.batches:
        settle(batch, 10 * batch.partition)
    for row in range(3):
        batch, place = outer.placement.locate(row)
        assert outcome.result_of(row) == Published("t", batch.partition, 10 * batch.partition + place)


def test_spans_name_the_first_error():
    outcome = SendOutcome("t")
    placement = routed(outcome, Rows.from_lists([b"0", b"1"], keys=[b"a", b"c"], timestamp_ms=1), 4)
    outcome.place(placement, 0, 2)
    outcome.is_complete = True
    assert not outcome.is_settled
    settle(placement.batches[0], 3)
    assert not outcome.is_settled
    placement.batches[1].error = DiskFull(problem="no room")
    assert outcome.is_settled
    assert isinstance(outcome.spans(), DiskFull)
    placement.batches[1].error = None
    settle(placement.batches[1], 8)
    assert outcome.spans() == [Span("t", batch.partition, batch.base_offset, 1) for batch in placement.batches]


def test_what_never_became_a_batch_has_an_outcome_too():
    outcome = SendOutcome("t")
    outcome.fail(TopicNotFound(topic="t"), 1)
    assert outcome.is_known(5)
    assert isinstance(outcome.result_of(5), TopicNotFound)


def test_callbacks_come_once_and_not_too_early():
    outcome, calls = SendOutcome("t"), []
    placement = routed(outcome, Rows.from_lists([b"0"], timestamp_ms=1), 1)
    outcome.place(placement, 0, 1)
    outcome.when_known(lambda: outcome.is_known(0), lambda: calls.append(1))
    outcome.watchers.changed()
    assert calls == []
    settle(placement.batches[0], 0)
    outcome.watchers.changed()
    outcome.watchers.changed()
    assert calls == [1]
    outcome.when_known(lambda: outcome.is_known(0), lambda: calls.append(2))
    assert calls == [1, 2]


def test_batches_without_a_key_go_round_and_avoid_trouble():
    router = Router("t", 0)
    rows = Rows.from_lists([b"x"], timestamp_ms=1)
    healthy = [router.route(rows, None, 3, lambda number: False).parts[0][0] for _ in range(6)]
    assert sorted(healthy) == [0, 0, 1, 1, 2, 2]
    avoiding = [router.route(rows, None, 3, lambda number: number == 1).parts[0][0] for _ in range(6)]
    assert 1 not in avoiding
    assert router.route(rows, None, 3, lambda number: True).parts[0][0] in (0, 1, 2)


def test_rows_keep_their_order_within_a_partition():
    keys = [b"%d" % (row % 7) for row in range(1000)]
    rows = Rows.from_lists([b"%d" % row for row in range(1000)], keys=keys, timestamp_ms=1)
    found = Router("t", 0).route(rows, None, 4, lambda number: False)
    assert all(part.hashed for part in found.parts)
    assert found.order is not None
    assert np.array_equal(np.sort(found.order), np.arange(1000))
    for part in found.parts:
        numbers = [int(value) for value in part.rows.arrays[0].to_pylist()]
        assert numbers == sorted(numbers)
