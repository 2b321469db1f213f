"""Delayed messages against a naive model: whatever happens, and through restarts at any point."""

from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from quiver.delays import pending
from quiver.delays.events import (
    CODEC,
    Cancelled,
    MoveContent,
    MoveDone,
    Purged,
    Rescheduled,
    packed,
)
from quiver.delays.state import DelayState
from quiver.outbox.outbox import Target


@pytest.fixture(scope="module", autouse=True)
def few_at_a_time() -> Iterator[None]:
    """What comes near is loaded in small steps."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pending, "_LOADED_AT_ONCE", 3)
        yield


START_MS = 1_700_000_000_000
TARGET = Target(1, 0)


class Machine(RuleBasedStateMachine):
    """The schedule log and the journal as lists beside the state; the model is a dict of what is pending."""

    def __init__(self) -> None:
        super().__init__()
        self.now_ms = START_MS
        self.state = DelayState(self.now_ms)
        self.log: list[tuple[int, list[int], int]] = []
        """Base offset, times and priority of each frame."""
        self.end = 0
        self.journal: list[bytes] = []
        self.snapshot: tuple[int, bytes] | None = None
        self.pending: dict[int, tuple[int, int, int]] = {}
        """Time, priority and place by id."""
        self.cancelled: set[int] = set()
        self.expired: set[int] = set()
        self.moves: dict[int, list[int]] = {}
        self.moved = 0
        self.dropped_below = 0

    def write(self, event) -> None:
        self.journal.append(CODEC.encode(event))

    # coming

    @rule(
        delays=st.lists(st.integers(-50, 200) | st.integers(0, 10**9), min_size=1, max_size=12),
        priority=st.integers(0, 4),
    )
    def schedule(self, delays, priority):
        times = [self.now_ms + delay for delay in delays]
        base, self.end = self.end, self.end + len(times)
        self.log.append((base, times, priority))
        self.state.schedule(np.arange(base, self.end), np.array(times, np.int64), priority)
        self.pending |= {base + step: (at_ms, priority, base + step) for step, at_ms in enumerate(times)}

    # leaving

    def some(self, data, among):
        return data.draw(st.lists(st.sampled_from(sorted(among)), unique=True, max_size=5)) if among else []

    @rule(data=st.data(), is_written=st.booleans())
    def cancel(self, data, is_written):
        ids = self.some(data, set(self.pending) | self.cancelled | {self.end + 3})
        found = self.state.cancel(ids)
        assert [message.id for message in found] == [id for id in ids if id in self.pending]
        assert all(self.state.find(id) is None for id in ids)
        if not is_written:
            self.state.uncancel(found)
            return
        self.write(Cancelled([message.id for message in found]))
        for message in found:
            del self.pending[message.id]
            if message.id >= self.dropped_below:
                self.cancelled.add(message.id)

    @rule(data=st.data(), delay=st.integers(-50, 200) | st.integers(0, 10**9), is_written=st.booleans())
    def reschedule(self, data, delay, is_written):
        ids, at_ms = self.some(data, set(self.pending) | self.cancelled | {self.end + 3}), self.now_ms + delay
        before = self.state.reschedule(ids, at_ms)
        assert [message.id for message in before] == [id for id in ids if id in self.pending]
        if not is_written:
            self.state.undo_reschedule(before)
            return
        self.write(Rescheduled(packed(np.array([message.id for message in before], np.int64)), at_ms))
        for message in before:
            self.pending[message.id] = (at_ms, message.priority, message.place)

    @rule(step_ms=st.integers(-30, 300) | st.just(10**9), limit=st.integers(1, 20), data=st.data())
    def time_passes(self, step_ms, limit, data):
        self.now_ms += step_ms
        taken = self.state.take_due(self.now_ms, limit)
        due = sorted((at_ms, id) for id, (at_ms, _, _) in self.pending.items() if at_ms <= self.now_ms)
        assert all(message.deliver_at_ms <= self.now_ms for message in taken)
        assert len(taken) <= limit
        assert bool(taken) == bool(due)
        assert {message.deliver_at_ms for message in taken} == {at_ms for at_ms, _ in due[: len(taken)]}
        for message in taken:
            assert self.pending[message.id] == (message.deliver_at_ms, message.priority, message.place)
        assert self.state.cancel([message.id for message in taken]) == []
        cut = data.draw(st.integers(0, len(taken)))
        self.state.put_back(taken[:cut])
        self.leave(taken[cut:], data)

    def leave(self, taken, data):
        if not taken:
            return
        places = sorted(data.draw(st.tuples(*[st.integers(0, len(taken))] * 3)))
        first, second, third = taken[: places[0]], taken[places[0] : places[1]], taken[places[1] : places[2]]
        words = [part for part in (first, second) if part], third, taken[places[2] :]
        left = self.state.leave(TARGET, *words, data.draw(st.sets(st.integers(0, 1))))
        if data.draw(st.booleans()):
            self.state.stay(left, *words)
            return
        self.write(left)
        for move, part in zip(left.moves, words[0], strict=True):
            assert (move.sequence, move.count) == (self.moved, len(part))
            self.moved += len(part)
            self.moves[move.id] = [message.id for message in part]
        self.expired |= {message.id for message in third if message.id >= self.dropped_below}
        for message in taken:
            del self.pending[message.id]

    @precondition(lambda self: self.moves)
    @rule(is_written=st.booleans())
    def move_is_done(self, is_written):
        id = min(self.moves)
        del self.moves[id]
        self.state.apply(MoveDone(id))
        if is_written:
            self.write(MoveDone(id))

    @rule()
    def purge(self):
        event = Purged(self.end)
        self.write(event)
        self.state.apply(event)
        self.pending.clear()

    # the schedule log

    @rule(count=st.integers(1, 8), data=st.data())
    def relocate(self, count, data):
        """Messages are cancelled and rescheduled while they are copied."""
        messages = self.state.pending.lowest(count)
        lowest = sorted(self.pending.items(), key=lambda item: item[1][2])[:count]
        assert [message.id for message in messages] == [id for id, _ in lowest]
        if not messages:
            return
        places = list(range(self.end, self.end + len(messages)))
        self.end += len(messages)
        self.cancel(data, True)
        self.reschedule(data, 77, True)
        event = self.state.relocation(messages, places)
        self.write(event)
        self.state.apply(event)
        for message, place in zip(messages, places, strict=True):
            if message.id not in self.pending:
                continue
            at_ms, priority, _ = self.pending[message.id]
            self.pending[message.id] = (at_ms, priority, place)

    @rule()
    def drop_front(self):
        floor = self.state.floor()
        needed = [place for _, _, place in self.pending.values()]
        assert floor <= min(needed, default=self.end)
        self.log = [frame for frame in self.log if frame[0] + len(frame[1]) > floor]
        self.dropped_below = max(self.dropped_below, floor)
        self.state.forget_below(floor)
        self.cancelled = {id for id in self.cancelled if id >= floor}
        self.expired = {id for id in self.expired if id >= floor}

    # restarts

    @rule(data=st.data())
    def take_snapshot(self, data):
        """Messages come, are rescheduled and cancelled before its last piece is made; what is noted of them comes
        after it."""
        offset = len(self.journal)
        pieces = self.state.snapshot()
        image = next(pieces)
        self.cancel(data, True)
        self.reschedule(data, 123, True)
        self.schedule([5, 10_000], 1)
        self.snapshot = (offset, image + b"".join(pieces))

    @rule()
    def restart(self):
        restored = DelayState(self.now_ms)
        offset = 0
        if self.snapshot is not None:
            offset, image = self.snapshot
            restored.restore(image)
        for record in self.journal[offset:]:
            restored.apply(CODEC.decode(record))
        for base, times, priority in self.log:
            restored.schedule(np.arange(base, base + len(times)), np.array(times, np.int64), priority)
        restored.seen_up_to(self.end)
        restored.forget_below(self.dropped_below)
        self.state = restored
        for id in [id for id in restored.outbox.open if id not in self.moves]:
            restored.apply(MoveDone(id))  # it was done, and not noted: the target recognises the repeat

    @invariant()
    def everything_is_known(self):
        state = self.state
        assert len(state.pending) == len(self.pending)
        in_order = sorted((at_ms, id) for id, (at_ms, _, _) in self.pending.items())
        page = state.pending.page(0, len(self.pending))
        assert page == [(at_ms, id, self.pending[id][1]) for at_ms, id in in_order]
        for id, known in self.pending.items():
            assert state.pending.find(id) == (id, *known)
        next_ms = state.pending.next_ms()
        assert (next_ms is None) == (not self.pending)
        assert next_ms is None or next_ms <= in_order[0][0]
        for known, wanted in ((state.cancelled, self.cancelled), (state.expired, self.expired)):
            found = {id for start, stop in known for id in range(start, stop)}
            assert {id for id in found if id >= self.dropped_below} == wanted
        open_moves = {id: MoveContent.unpack(move.content).ids.tolist() for id, move in state.outbox.open.items()}
        assert open_moves == self.moves


TestDelayState = Machine.TestCase
TestDelayState.settings = settings(max_examples=120, stateful_step_count=30, deadline=None)
