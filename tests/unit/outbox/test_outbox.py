"""The outbox against what a journal would bring back."""

from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from quiver.model.limits import SEQUENCE_LIMIT
from quiver.outbox.outbox import Move, Outbox, Target, mover_id
from quiver.partition.producers import FIRST_RELAY_ID

TARGETS = [Target(0, 0), Target(0, 1), Target(7, 0)]


def replayed(records: list[tuple[str, Any]], image: Any = None) -> Outbox:
    """The outbox as a start-up makes it, by way of the bytes that a journal stores."""
    outbox = Outbox()
    if image is not None:
        outbox.restore(msgspec.msgpack.decode(msgspec.msgpack.encode(image)))
    for kind, content in records:
        data = msgspec.msgpack.encode(content)
        if kind == "begun":
            outbox.begun(msgspec.msgpack.decode(data, type=Move))
        else:
            outbox.done(msgspec.msgpack.decode(data))
    return outbox


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("begin"), st.sampled_from(TARGETS), st.integers(1, 1000)),
        st.tuples(st.just("done"), st.integers(0, 5), st.just(0)),
    ),
    max_size=40,
)


@given(STEPS, st.integers(0, 40), st.integers(0, 5))
def test_start_up_brings_back_what_was_open(steps: list[tuple[str, Any, int]], at: int, behind: int) -> None:
    """Whatever the snapshot holds already of the records behind it."""
    outbox, records, image, snapshot_at = Outbox(), [], None, 0
    for index, (kind, what, count) in enumerate(steps):
        if index == at:
            image, snapshot_at = msgspec.msgpack.encode(outbox.image()), max(0, len(records) - behind)
        if kind == "begin":
            records.append(("begun", outbox.begin(what, count, [1, ["x", b"y"]])))
        elif outbox.open:
            move_id = list(outbox.open)[min(what, len(outbox.open) - 1)]
            outbox.done(move_id)
            records.append(("done", move_id))
    for again in (replayed(records), replayed(records + records)):
        assert again.image() == outbox.image()
    if image is not None:
        restored = replayed(records[snapshot_at:], msgspec.msgpack.decode(image))
        assert restored.image() == outbox.image()
        assert restored.begin(TARGETS[0], 1, None) == outbox.begin(TARGETS[0], 1, None)


@given(st.lists(st.tuples(st.sampled_from(TARGETS), st.integers(1, 1000)), min_size=1, max_size=30))
def test_sequences_of_a_target_have_no_gaps(moves: list[tuple[Target, int]]) -> None:
    outbox, passed, last_id = Outbox(), dict.fromkeys(TARGETS, 0), 0
    for target, count in moves:
        move = outbox.begin(target, count, None)
        assert (move.sequence, move.count) == (passed[target], count)
        assert move.id > last_id
        passed[target] += count
        last_id = move.id


def test_sequences_wrap() -> None:
    outbox = Outbox()
    outbox.begun(Move(1, TARGETS[0], SEQUENCE_LIMIT - 3, 5, None))
    assert outbox.begin(TARGETS[0], 1, None).sequence == 2


def test_a_move_that_was_not_written_gives_its_sequence_to_the_next_but_not_its_id() -> None:
    outbox = Outbox()
    first = outbox.begin(TARGETS[0], 5, None)
    lost = outbox.begin(TARGETS[0], 3, None)
    outbox.take_back(lost)
    assert list(outbox.open.values()) == [first]
    following = outbox.begin(TARGETS[0], 2, None)
    assert following.sequence == lost.sequence
    assert following.id > lost.id


def test_moves_that_are_taken_back_last_first_leave_no_gap() -> None:
    outbox = Outbox()
    begun = [outbox.begin(TARGETS[0], 5, None), outbox.begin(TARGETS[1], 1, None), outbox.begin(TARGETS[0], 3, None)]
    for move in reversed(begun):
        outbox.take_back(move)
    assert outbox.begin(TARGETS[0], 1, None).sequence == 0


def test_a_move_taken_back_behind_others_leaves_their_sequences_alone() -> None:
    outbox = Outbox()
    lost, kept = outbox.begin(TARGETS[0], 5, None), outbox.begin(TARGETS[0], 3, None)
    outbox.take_back(lost)
    assert list(outbox.open.values()) == [kept]
    following = outbox.begin(TARGETS[0], 1, None)
    assert (following.id, following.sequence) == (kept.id + 1, kept.sequence + kept.count)


def test_mover_ids_differ_by_purpose_topic_and_partition() -> None:
    purposes = ("dead_letters", "delays", "redrive", "schedules")
    ids = {mover_id(purpose, topic, part) for purpose in purposes for topic in (1, 2, 999) for part in (0, 1, 9_999)}
    assert len(ids) == 36
    assert all(FIRST_RELAY_ID <= id < 2**63 for id in ids)
