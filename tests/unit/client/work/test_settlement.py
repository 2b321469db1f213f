"""Decisions gathered into parts: few, complete, and each lease's in their order."""

from functools import cache
from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quiver.client.work.held_run import HeldRun
from quiver.client.work.settlement import Decision, gather, refusals
from quiver.model.errors import LeaseLost, SettleInOrder
from quiver.model.settlement import ACK, EXTEND, NACK, REJECT
from quiver.protocol.queue_messages import ReceivedRun, RefusedRun, SettledPart
from quiver.records.build import build_frame

COUNT = 20


def run_of(lease: int, start: int = 0) -> HeldRun:
    frame = bytearray(build_frame([b"x"] * COUNT, timestamp_ms=1))
    frame[8:16] = start.to_bytes(8, "little")
    received = ReceivedRun(1, 0, 1, lease, start, start + COUNT, 1, 0, 30_000, 0, "", len(frame))
    return HeldRun(received, "jobs", memoryview(frame), 0.0)


@cache
def source_of(run: HeldRun) -> Any:
    """One for all jobs of a run."""
    return SimpleNamespace(run=run)


def done(run: HeldRun, offset: int) -> Any:
    return SimpleNamespace(source=source_of(run), offset=offset)


def test_acks_of_neighbours_become_one_range_and_one_part_a_lease():
    first, second, other = run_of(1), run_of(1, 100), run_of(2, 200)
    items = [done(first, n) for n in range(20)] + [done(second, n) for n in (100, 101, 105)] + [done(other, 200)]
    parts = [part.request() for part in gather(items)]
    assert [(part.lease_id, part.runs) for part in parts] == [
        (1, [(0, 20), (100, 102), (105, 106)]),
        (2, [(200, 201)]),
    ]


def test_another_fate_in_between_keeps_its_place():
    run = run_of(1)
    items = [done(run, 0), Decision(REJECT, [(run, 1, 2)], reason="bad"), done(run, 2), done(run, 3)]
    parts = [part.request() for part in gather(items)]
    assert [(part.action, part.runs) for part in parts] == [(ACK, [(0, 1)]), (REJECT, [(1, 2)]), (ACK, [(2, 4)])]


decisions = st.lists(
    st.tuples(st.sampled_from([1, 2, 3]), st.sampled_from([ACK, NACK, REJECT]), st.sampled_from(["", "no"])),
    max_size=40,
)


@given(decisions)
def test_nothing_is_lost_doubled_or_put_out_of_order(chosen: list[tuple[int, int, str]]):
    runs = {lease: run_of(lease) for lease in (1, 2, 3)}
    used = dict.fromkeys(runs, 0)
    items: list[Any] = []
    wanted: dict[int, list[tuple[int, int, str]]] = {lease: [] for lease in runs}
    finished: list[Decision] = []
    for lease, action, reason in chosen:
        offset, used[lease] = used[lease], used[lease] + 1
        if offset >= COUNT:
            continue
        is_plain = action == ACK
        wanted[lease].append((action, offset, "" if is_plain else reason))
        if is_plain:
            items.append(done(runs[lease], offset))
        else:
            span = (runs[lease], offset, offset + 1)
            items.append(Decision(action, [span], reason=reason, on_done=finished.append))
    parts = gather(items)
    found: dict[int, list[tuple[int, int, str]]] = {lease: [] for lease in runs}
    for part in parts:
        request = part.request()
        for start, end in request.runs:
            found[request.lease_id] += [(request.action, offset, request.reason) for offset in range(start, end)]
        for decision in part.decisions:
            decision.part_done()
    assert found == wanted
    assert len(finished) == sum(isinstance(item, Decision) for item in items)
    for one, next_one in pairwise(parts):
        assert one.request().lease_id != next_one.request().lease_id or not one.takes(next_one.decision)


def test_a_decision_over_several_leases_is_done_when_all_are():
    finished: list[Decision] = []
    decision = Decision(ACK, [(run_of(1), 0, 5), (run_of(2), 0, 5)], on_done=finished.append)
    first, second = gather([decision])
    for part in (first, second):
        assert finished == []
        for one in part.decisions:
            one.part_done()
    assert finished == [decision]


def test_refusals_name_their_messages():
    run = run_of(1)
    [part] = gather([done(run, 3), done(run, 4), done(run, 9)])
    answer = SettledPart([RefusedRun(4, 10, "lease_lost", "gone"), RefusedRun(3, 4, "settle_in_order", "first")])
    found = list(refusals(part, answer))
    assert [(refusal.start, refusal.end, type(refusal.error)) for refusal in found] == [
        (4, 5, LeaseLost),
        (9, 10, LeaseLost),
        (3, 4, SettleInOrder),
    ]
    assert "jobs-0 offset 4" in found[0].error.message


def answer_of(*, is_settled: bool) -> SettledPart:
    return SettledPart([RefusedRun(0, 1, "lease_lost", "gone", is_settled=is_settled)])


@pytest.mark.parametrize("action", [ACK, NACK, REJECT, EXTEND])
def test_a_first_request_without_a_lease_is_refused(action: int):
    [part] = gather([Decision(action, [(run_of(1), 0, 1)])])
    for is_settled in (False, True):
        assert len(list(refusals(part, answer_of(is_settled=is_settled)))) == 1


@pytest.mark.parametrize(
    ("action", "is_settled", "is_refused"),
    [
        (ACK, True, False),
        (ACK, False, True),
        (REJECT, True, False),
        (REJECT, False, True),
        (NACK, True, False),
        (NACK, False, False),
        (EXTEND, True, True),
        (EXTEND, False, True),
    ],
)
def test_a_repeat_without_a_lease_is_no_failure_if_what_it_asked_for_is_so(
    action: int, is_settled: bool, is_refused: bool
):
    [part] = gather([Decision(action, [(run_of(1), 0, 1)])])
    part.is_repeat = True
    assert part.request().is_repeat
    assert bool(list(refusals(part, answer_of(is_settled=is_settled)))) is is_refused


def test_of_a_repeat_only_what_is_not_settled_is_lost():
    run = run_of(1)
    [part] = gather([done(run, offset) for offset in range(6)])
    part.is_repeat = True
    answer = SettledPart(
        [RefusedRun(0, 2, "lease_lost", "", is_settled=True), RefusedRun(2, 5, "lease_lost", "", is_settled=False)]
    )
    assert [(refusal.start, refusal.end) for refusal in refusals(part, answer)] == [(2, 5)]
