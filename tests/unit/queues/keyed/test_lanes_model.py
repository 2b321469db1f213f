"""Ordered lanes against the slow model, with snapshots, restarts and replays at any point."""

from collections.abc import Iterable, Iterator, Sequence

import msgspec
import pytest
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from quiver.model.queue import QueueSettings
from quiver.queues.journal.events import Died, Event, Rewound
from quiver.queues.state.keyed import snapshot as lanes_snapshot
from quiver.queues.state.keyed.reopening import LeveledRun
from quiver.queues.state.keyed.state import LaneState
from quiver.queues.state.port import Dead, KeyLimit, LeaseTerms, Run, Settlement, StoredRun
from quiver.queues.state.retry_policy import RetryPolicy
from unit.queues.keyed.lane_model import DELIVERED, LEASED, WAITING, LaneModel, Outcome

GROUP = 7
SETTINGS = QueueSettings(max_attempts=3, backoff_ms=1_000)
CONSUMERS = st.sampled_from(["ann", "bob"])
KEYS = st.lists(
    st.sampled_from([b"hot", b"hot", b"hot", b"a", b"b", b"c", b"d", b"", None, None, None]), min_size=1, max_size=6
) | st.sampled_from([[b"hot"] * 9, [b"a"] * 8])
LEVELS = st.sampled_from([2, 2, 2, 0, 4])
DELAYS = st.sampled_from([0, 0, 500, 4_000])
PART = st.lists(st.booleans(), min_size=1, max_size=6)

_records = msgspec.msgpack.Decoder(Event)


def runs_of(offsets: Iterable[int]) -> list[Run]:
    return [(offset, offset + 1) for offset in offsets]


def flat(dead: Iterable[Dead]) -> list[tuple[int, int, int, str, str]]:
    return [
        (offset, each.level, each.attempts, each.reason, each.error)
        for each in dead
        for offset in range(each.start, each.end)
    ]


def is_rarely(machine: "Lanes") -> bool:
    """What ends so much at once that little would come of the rest."""
    return machine.last_lease % 4 == 3


class Lanes(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.state = LaneState(GROUP, 0)
        self.model = LaneModel()
        self.journal: list[bytes] = []
        self.now_ms = 1_000
        self.last_lease = 0
        self.settled_below = 0
        self.snapshot: tuple[int, list[bytes]] | None = None
        self.snapshot: tuple[int, list[bytes], Iterator[bytes]] | None = None

    # the log

    @initialize(batches=st.lists(st.tuples(KEYS, LEVELS), min_size=2, max_size=6))
    def begin(self, batches: list[tuple[list[bytes | None], int]]) -> None:
        for keys, level in batches:
            self.append(keys, level)
        self.read(2 * self.model.end // 3)

    @rule(keys=KEYS, level=LEVELS)
    def append(self, keys: list[bytes | None], level: int) -> None:
        self.model.append(keys, level)

    @rule(count=st.integers(1, 3))
    def leave_a_hole(self, count: int) -> None:
        self.model.skip(count)

    @rule(count=st.integers(1, 8))
    def read(self, count: int) -> None:
        """Feeds from where the state says, and shows it again what it passed before a restart."""
        start = self.state.position(0)
        end = min(self.model.end, start + count)
        runs = []
        for offset in range(start, end):
            message = self.model.log.get(offset)
            if message is not None:
                runs.append(StoredRun(offset, offset + 1, message.level, [message.key]))
        self.state.feed(0, joined(runs), end)
        self.model.feed(end)

    # deliveries

    @rule(
        level=LEVELS,
        count=st.integers(1, 6),
        consumer=CONSUMERS,
        visibility_ms=st.sampled_from([500, 5_000]),
        limit=st.sampled_from([None, None, (b"hot", None), (b"a", None), (None, 1), (None, 2)]),
    )
    def take(
        self, level: int, count: int, consumer: str, visibility_ms: int, limit: tuple[bytes | None, int | None] | None
    ) -> None:
        self.last_lease += 1
        key, max_keys = limit or (None, None)
        keys = None if limit is None else KeyLimit(key, max_keys or 1)
        terms = LeaseTerms(self.last_lease, consumer, self.now_ms + visibility_ms, keys)
        taken = self.state.take(level, count, terms, self.now_ms)
        self.state.lease_taken()
        self.record()
        found = [
            (offset, run.attempt, run.first_delivered_ms, run.last_error)
            for run in taken
            for offset in range(run.start, run.end)
        ]
        assert all(run.level == level for run in taken)
        assert found == self.model.take(level, count, terms, self.now_ms, key, max_keys)

    @rule(data=st.data(), part=PART)
    def ack(self, data: st.DataObject, part: list[bool]) -> None:
        lease, offsets = self.some(data, part)
        self.check(self.state.ack(lease, runs_of(offsets)), self.model.ack(lease, offsets), offsets)

    @rule(data=st.data(), part=PART, delay_ms=st.none() | DELAYS, is_counted=st.booleans())
    def nack(self, data: st.DataObject, part: list[bool], delay_ms: int | None, is_counted: bool) -> None:
        lease, offsets = self.some(data, part)
        settlement = self.state.nack(
            lease,
            runs_of(offsets),
            RetryPolicy(
                now_ms=self.now_ms,
                delay_ms=delay_ms,
                is_counted=is_counted,
                error=f"error {lease}",
                settings=SETTINGS,
                jitter=0.5,
            ),
        )
        outcome = self.model.nack(
            lease,
            offsets,
            now_ms=self.now_ms,
            delay_ms=delay_ms,
            is_counted=is_counted,
            error=f"error {lease}",
            max_attempts=SETTINGS.max_attempts,
            backoff_ms=SETTINGS.backoff_ms // 2,
        )
        self.check(settlement, outcome, offsets)

    @rule(data=st.data(), part=PART)
    def reject(self, data: st.DataObject, part: list[bool]) -> None:
        lease, offsets = self.some(data, part)
        self.check(
            self.state.reject(lease, runs_of(offsets), "bad"), self.model.reject(lease, offsets, "bad"), offsets
        )

    @rule(data=st.data(), part=PART)
    def drop(self, data: st.DataObject, part: list[bool]) -> None:
        lease, offsets = self.some(data, part)
        dead = self.state.drop(lease, runs_of(offsets), "expired")
        assert flat(dead) == self.model.drop(lease, offsets).dead
        self.record(dead)

    @rule(data=st.data(), part=PART, more_ms=st.sampled_from([200, 20_000]))
    def extend(self, data: st.DataObject, part: list[bool], more_ms: int) -> None:
        lease, offsets = self.some(data, part)
        settlement = self.state.extend(lease, runs_of(offsets), self.now_ms + more_ms)
        self.check(settlement, self.model.extend(lease, offsets, self.now_ms + more_ms), offsets)

    @rule(data=st.data(), part=PART, action=st.sampled_from(["ack", "nack", "reject", "extend"]))
    def fail_to_settle(self, data: st.DataObject, part: list[bool], action: str) -> None:
        """The journal did not take it, and it is taken back."""
        lease, offsets = self.some(data, part)
        if any(message.lease == lease for message in self.model.of("expired")):
            return
        state, runs = self.state, runs_of(offsets)
        match action:
            case "ack":
                settlement = state.ack(lease, runs)
            case "nack":
                settlement = state.nack(
                    lease,
                    runs,
                    RetryPolicy(
                        now_ms=self.now_ms,
                        delay_ms=None,
                        is_counted=True,
                        error="never heard of",
                        settings=SETTINGS,
                        jitter=1.0,
                    ),
                )
            case "reject":
                settlement = state.reject(lease, runs, "never heard of")
            case _:
                settlement = state.extend(lease, runs, self.now_ms + 100_000)
        state.take_back(settlement.undo)
        state.events.clear()

    # time

    @rule(ms=st.sampled_from([100, 1_000, 6_000]))
    def pass_time(self, ms: int) -> None:
        self.now_ms += ms

    @rule(may_die=st.sampled_from([True, True, False]))
    def expire(self, may_die: bool) -> None:
        dead = self.state.expire(self.now_ms, SETTINGS, may_die=may_die)
        self.record(dead)
        expected = self.model.expire(self.now_ms, SETTINGS.max_attempts if may_die else None).dead
        assert sorted(flat(dead)) == sorted(expected)

    @precondition(is_rarely)
    @rule(consumer=CONSUMERS)
    def end_leases(self, consumer: str) -> None:
        self.state.end_leases(consumer)
        self.record()
        self.model.end_leases(consumer)

    @precondition(is_rarely)
    @rule(back=st.integers(0, 6))
    def settle_below(self, back: int) -> None:
        offset = self.model.position - back
        assert self.state.settle_below(offset) == self.model.settle_below(offset)
        self.settled_below = max(offset, self.settled_below)
        self.record()

    @precondition(is_rarely)
    @rule(back=st.integers(0, 20))
    def rewind(self, back: int) -> None:
        offset = max(0, self.model.position - back)
        self.state.apply(Rewound(GROUP, offset))
        self.journal.append(msgspec.msgpack.encode(Rewound(GROUP, offset)))
        self.model.rewind(offset)
        self.settled_below = max(offset, self.settled_below)

    @rule(level=LEVELS, key=st.sampled_from([b"hot", b"a"]), back=st.integers(0, 60))
    def finish_and_reopen(self, level: int, key: bytes, back: int) -> None:
        self.take(level, 6, "x", 5_000, (key, None))
        lease = self.last_lease
        offsets = [m.offset for m in self.model.log.values() if m.lease == lease and m.state == LEASED]
        if offsets:
            self.check(self.state.ack(lease, runs_of(offsets)), self.model.ack(lease, offsets), offsets)
        self.reopen(key, back)

    @rule(key=st.sampled_from([b"hot", b"a"]), back=st.integers(0, 60))
    def reopen(self, key: bytes, back: int) -> None:
        start = max(self.settled_below, self.model.position - back)
        self.last_lease += 1
        runs = [
            LeveledRun(m.offset, m.offset + 1, m.level)
            for m in self.model.log.values()
            if m.key == key and m.offset >= start
        ]
        terms = LeaseTerms(self.last_lease, "seek", self.now_ms)
        count = self.state.reopen(key, runs, terms, self.now_ms)
        assert count == self.model.reopen(key, start, self.settled_below, self.now_ms)
        self.record()

    # snapshots and restarts

    @precondition(lambda self: self.snapshot is None)
    @rule()
    def begin_snapshot(self) -> None:
        self.snapshot = (len(self.journal), [], self.state.snapshot())

    @precondition(lambda self: self.snapshot is not None)
    @rule(count=st.integers(1, 6))
    def go_on_with_snapshot(self, count: int) -> None:
        assert self.snapshot is not None
        place, chunks, rest = self.snapshot
        for _ in range(count):
            chunk = next(rest, None)
            if chunk is None:
                self.snapshot, self.snapshot = (place, chunks), None
                return
            chunks.append(chunk)

    @rule()
    def restart(self) -> None:
        """What expires meanwhile would be the same a moment later."""
        self.expire(True)
        floor, self.snapshot = self.model.floor(), None
        self.state = LaneState(GROUP, 0)
        first = 0
        if self.snapshot is not None:
            first, chunks = self.snapshot
            self.state.restore(chunks)
        for record in self.journal[first:]:
            self.state.apply(_records.decode(record))
        position = self.state.position(0)
        assert position <= floor
        self.model.restart(position)

    # the model

    @invariant()
    def is_as_the_model(self) -> None:
        state, model = self.state, self.model
        assert state.available(self.now_ms) == model.available(self.now_ms)
        counts = state.counts()
        assert counts.leased == sum(model.held_by().values()) == sum(counts.by_level_leased)
        assert counts.retrying == len(model.of(*DELIVERED)) - counts.leased
        assert counts.read_ahead == len(model.of(WAITING))
        assert state.held_by() == model.held_by()
        assert dict(state.blocked_keys(self.now_ms, 10)) == model.blocked_keys(self.now_ms)
        unsettled = [message.offset for message in model.of(WAITING, *DELIVERED)]
        assert state.lowest_unsettled() == min([*unsettled, state.position(0)])

    @invariant()
    def tells_when_to_look_again(self) -> None:
        times = [m.deadline_ms for m in self.model.of("leased")]
        times += [lane[0].due_ms for lane in self.model.lanes() if lane[0].state == "returned"]
        later = [time for time in times if time > self.now_ms]
        told = self.state.next_time_ms()
        assert not later or (told is not None and told <= min(later))

    # parts of the above

    def some(self, data: st.DataObject, part: Sequence[bool]) -> tuple[int, list[int]]:
        """A lease, and some of the offsets that it has or has not."""
        lease = data.draw(st.integers(max(1, self.last_lease - 3), max(1, self.last_lease)))
        held = [m.offset for m in self.model.log.values() if m.lease == lease] or [0, 1]
        offsets = [offset for offset, is_in in zip(held, part * len(held), strict=False) if is_in]
        return lease, offsets or held[:1]

    def check(self, settlement: Settlement, outcome: Outcome, offsets: Sequence[int]) -> None:
        self.record(settlement.dead)
        refused = {offset: each.error.code for each in settlement.refused for offset in range(each.start, each.end)}
        assert refused == outcome.refused
        assert refused.keys() <= set(offsets)
        assert flat(settlement.dead) == sorted(outcome.dead)

    def record(self, dead: Sequence[Dead] = ()) -> None:
        events = [*self.state.events, *([Died(GROUP, list(dead), [])] if dead else [])]
        self.state.events.clear()
        self.journal += [msgspec.msgpack.encode(event) for event in events]


def joined(runs: list[StoredRun]) -> list[StoredRun]:
    """Neighbours of a level as one, as frames have them."""
    found: list[StoredRun] = []
    for run in runs:
        if found and found[-1].end == run.start and found[-1].level == run.level:
            last = found.pop()
            run = StoredRun(last.start, run.end, run.level, [*last.keys, *run.keys])
        found.append(run)
    return found


@pytest.fixture(autouse=True)
def _small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lanes_snapshot, "_LANES", 2)
    monkeypatch.setattr(lanes_snapshot, "_OFFSETS", 2)


class TestLanes(Lanes.TestCase):
    settings = hypothesis_settings(max_examples=120, stateful_step_count=60, report_multiple_bugs=False)
