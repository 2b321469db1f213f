"""The unordered state against a naive model, with snapshots made in the middle of changes, and restarts from them."""

import random
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quiver.model.queue import QueueSettings
from quiver.queues.journal.events import Died, Event, Rewound
from quiver.queues.state.port import Dead, LeaseTerms, Settlement, StoredRun
from quiver.queues.state.retry_policy import RetryPolicy
from quiver.queues.state.unordered import in_flight
from quiver.queues.state.unordered.state import UnorderedState
from unit.queues.unordered.unordered_model import LEVELS, READY, SETTLED, UNREAD, Message, Outcome, UnorderedModel

SETTINGS = QueueSettings(max_attempts=3, backoff_ms=10, backoff_max_ms=35)
CONSUMERS = ("ada", "bob")
_events = msgspec.msgpack.Decoder(list[Event])


@pytest.fixture(autouse=True, scope="module")
def _small_blocks() -> Iterator[None]:
    """So that a few entries make many chunks."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(in_flight, "_BLOCK", 4)
        yield


def _outcome(settlement: Settlement) -> Outcome:
    return Outcome(
        {offset for refused in settlement.refused for offset in range(refused.start, refused.end)},
        _dead(settlement.dead),
        settlement.until_ms,
    )


def _dead(dead: Sequence[Dead]) -> set[tuple[int, int, str, str]]:
    return {(offset, one.attempts, one.reason, one.error) for one in dead for offset in range(one.start, one.end)}


class Machine:
    """Runs the state and the model side by side; `journal` is what a broker would have on disk."""

    def __init__(self, seed: int, *, in_offset_order: bool) -> None:
        self.chance = random.Random(seed)
        self.in_offset_order = in_offset_order
        self.state = UnorderedState(1, 0, in_offset_order=in_offset_order)
        self.model = UnorderedModel(in_offset_order=in_offset_order)
        self.journal: list[bytes] = []
        self.end = 0
        self.now_ms = 1_000
        self.lease = 0
        self.snapshot: tuple[int, list[bytes]] | None = None
        self.unfinished_snapshot: tuple[int, list[bytes], Iterator[bytes]] | None = None

    def write(self, dead: Sequence[Dead] = ()) -> None:
        events: list[Any] = [*self.state.events, *([Died(1, list(dead), [])] if dead else [])]
        self.state.events = []
        if events:
            self.journal.append(msgspec.msgpack.encode(events))

    def step(self) -> None:
        names = [name for name in dir(self) if name.startswith("do_")]
        getattr(self, self.chance.choice(names))()
        self.check()

    def ready_queues(self) -> range:
        return range(1 if self.in_offset_order else LEVELS)

    # what may happen

    def do_append(self) -> None:
        level = self.chance.randrange(LEVELS)
        for _ in range(self.chance.randint(1, 12)):
            self.model.log[self.end] = Message(level)
            self.end += 1
        self.end += self.chance.choice((0, 0, 3))

    def do_feed(self) -> None:
        for ready_queue in self.ready_queues():
            position = self.chance.randint(
                self.model.positions[ready_queue], max(self.end, self.model.positions[ready_queue])
            )
            runs: list[StoredRun] = []
            for offset, level in self.model.feed(ready_queue, position):
                if runs and runs[-1].end == offset and runs[-1].level == level and self.chance.random() < 0.7:
                    runs[-1] = runs[-1]._replace(end=offset + 1)
                else:
                    runs.append(StoredRun(offset, offset + 1, level))
            self.state.feed(ready_queue, runs, position)

    def do_take(self) -> None:
        self.lease += 1
        how: dict[str, Any] = {
            "lease": self.lease,
            "consumer": self.chance.choice(CONSUMERS),
            "now_ms": self.now_ms,
            "deadline_ms": self.now_ms + self.chance.randint(1, 60),
        }
        terms = LeaseTerms(how["lease"], how["consumer"], how["deadline_ms"])
        for _ in range(self.chance.randint(1, 3)):
            ready_queue, count = self.chance.choice(self.ready_queues()), self.chance.randint(1, 15)
            taken = [
                (offset, run.level, run.attempt, run.first_delivered_ms, run.last_error)
                for run in self.state.take(ready_queue, count, terms, self.now_ms)
                for offset in range(run.start, run.end)
            ]
            assert taken == self.model.take(ready_queue, count, **how)
            if self.chance.random() < 0.5:
                self.state.lease_taken()
                self.write()
        self.state.lease_taken()
        self.write()

    do_take_again = do_take

    def some_runs(self) -> tuple[int, list[tuple[int, int]], list[int]]:
        """Of a lease that may have them, mostly."""
        held = [(offset, m.lease) for offset, m in sorted(self.model.log.items()) if m.lease]
        if not held:
            return 99, [(0, 3)], [0, 1, 2]
        offset, lease = self.chance.choice(held)
        lease = lease if self.chance.random() < 0.9 else self.chance.randint(0, self.lease)
        runs = []
        start = max(0, offset - self.chance.randint(0, 4))
        for _ in range(self.chance.randint(1, 3)):
            runs.append((start, start + self.chance.randint(1, 9)))
            start = runs[-1][1] + self.chance.randint(0, 2)
        return lease, runs, [offset for run in runs for offset in range(*run)]

    def settle(self, settlement: Settlement, outcome: Outcome) -> None:
        assert _outcome(settlement) == outcome
        self.write(settlement.dead)

    def do_ack(self) -> None:
        lease, runs, offsets = self.some_runs()
        self.settle(self.state.ack(lease, runs), self.model.ack(lease, offsets))

    do_ack_again = do_ack

    def do_nack(self) -> None:
        lease, runs, offsets = self.some_runs()
        how: dict[str, Any] = {
            "now_ms": self.now_ms,
            "delay_ms": self.chance.choice((None, None, 0, 25)),
            "is_counted": self.chance.random() < 0.7,
            "error": self.chance.choice(("", "boom", "bang")),
            "jitter": self.chance.choice((0.5, 1.0)),
        }
        outcome = self.model.nack(
            lease,
            offsets,
            max_attempts=SETTINGS.max_attempts,
            backoff_ms=SETTINGS.backoff_ms,
            backoff_max_ms=SETTINGS.backoff_max_ms,
            **how,
        )
        self.settle(self.state.nack(lease, runs, RetryPolicy(SETTINGS, **how)), outcome)

    def do_reject(self) -> None:
        lease, runs, offsets = self.some_runs()
        self.settle(self.state.reject(lease, runs, "bad"), self.model.reject(lease, offsets, "bad"))

    def do_drop(self) -> None:
        lease, runs, offsets = self.some_runs()
        dead = self.state.drop(lease, runs, "expired")
        assert _dead(dead) == self.model.drop(lease, offsets, "expired").dead
        self.write(dead)

    def do_extend(self) -> None:
        lease, runs, offsets = self.some_runs()
        deadline_ms = self.now_ms + self.chance.randint(0, 80)
        self.settle(self.state.extend(lease, runs, deadline_ms), self.model.extend(lease, offsets, deadline_ms))

    def do_change_and_take_back(self) -> None:
        """As when the journal takes no more."""
        lease, runs, _ = self.some_runs()
        how: dict[str, Any] = {"now_ms": self.now_ms, "delay_ms": 5, "is_counted": True, "error": "x", "jitter": 1.0}
        change = self.chance.choice(
            (
                lambda: self.state.ack(lease, runs),
                lambda: self.state.reject(lease, runs, "bad"),
                lambda: self.state.extend(lease, runs, self.now_ms + 5),
                lambda: self.state.nack(lease, runs, RetryPolicy(SETTINGS, **how)),
            )
        )
        settlement = change()
        self.state.events.clear()
        self.state.take_back(settlement.undo)
        self.unfinished_snapshot = None  # a journal does not keep a snapshot that was made meanwhile

    def do_wait(self) -> None:
        self.now_ms += self.chance.randint(1, 30)

    def do_expire(self) -> None:
        may_die = not self.in_offset_order
        dead = self.state.expire(self.now_ms, SETTINGS, may_die=may_die)
        assert _dead(dead) == self.model.expire(self.now_ms, SETTINGS.max_attempts, may_die=may_die).dead
        self.write(dead)
        next_ms = self.state.next_time_ms()
        assert next_ms is None or next_ms > self.now_ms

    do_expire_again = do_expire

    def do_end_leases(self) -> None:
        if self.chance.random() < 0.3:
            consumer = self.chance.choice(CONSUMERS)
            self.state.end_leases(consumer)
            self.model.end_leases(consumer)
            self.write()

    def do_settle_below(self) -> None:
        if self.chance.random() < 0.3:
            limit = self.chance.randint(0, self.end)
            assert self.state.settle_below(limit) == self.model.settle_below(limit)
            self.write()

    def do_rewind(self) -> None:
        if self.chance.random() < 0.1:
            limit = self.chance.randint(0, self.end)
            event = Rewound(1, limit)
            self.state.apply(event)
            self.state.events.append(event)
            self.model.rewind(limit)
            self.write()

    def do_continue_snapshot(self) -> None:
        """A snapshot is made piece by piece, with changes in between."""
        if self.unfinished_snapshot is None:
            self.unfinished_snapshot = (len(self.journal), [], self.state.snapshot())
        at, chunks, snapshot = self.unfinished_snapshot
        for _ in range(self.chance.randint(1, 2)):
            chunk = next(snapshot, None)
            if chunk is None:
                self.snapshot, self.unfinished_snapshot = (at, chunks), None
                return
            chunks.append(chunk)

    do_continue_snapshot_again = do_continue_snapshot

    def do_restart(self) -> None:
        if self.chance.random() < 0.3:
            self.restart()

    def restart(self) -> None:
        self.state = UnorderedState(1, 0, in_offset_order=self.in_offset_order)
        self.unfinished_snapshot = None
        at = 0
        if self.snapshot is not None and self.chance.random() < 0.8:
            at, chunks = self.snapshot
            self.state.restore(chunks)
        for record in self.journal[at:]:
            for event in _events.decode(record):
                self.state.apply(event)
        assert self.state.events == []
        self.model.restart()
        for ready_queue in self.ready_queues():
            position = self.state.position(ready_queue)
            assert not [offset for offset, _ in self.model.of_line(ready_queue, UNREAD) if offset < position]
            self.model.positions[ready_queue] = position
            for offset, message in self.model.log.items():
                if self.model.queue_of_level(message) == ready_queue and offset >= position:
                    assert message.state in (UNREAD, SETTLED)
                    message.state = UNREAD if message.state != SETTLED else SETTLED

    def check(self) -> None:
        model, state = self.model, self.state
        assert state.counts()[:3] == model.counts()
        assert state.held_by() == model.held_by()
        assert state.available(self.now_ms) == model.available(self.now_ms)
        lowest = [
            min([offset for offset, _ in model.of_line(ready_queue, READY)], default=model.positions[ready_queue])
            for ready_queue in self.ready_queues()
        ]
        unsettled = [offset for offset, m in model.log.items() if m.state not in (UNREAD, READY, SETTLED)]
        assert state.lowest_unsettled() == min(lowest + unsettled)


@pytest.mark.parametrize("in_offset_order", [False, True])
@given(seed=st.integers(0, 2**32))
@settings(max_examples=120)
def test_it_does_what_the_model_does(seed: int, in_offset_order: bool) -> None:
    machine = Machine(seed, in_offset_order=in_offset_order)
    for _ in range(100):
        machine.step()
    machine.restart()
    machine.check()
