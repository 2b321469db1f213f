"""Ordered lanes: what each of their promises looks like."""

import msgspec

from quiver.model.queue import QueueSettings
from quiver.queues.journal.events import Event, Leased, LeasedRun, Rewound
from quiver.queues.state.keyed.state import LaneState
from quiver.queues.state.port import LeaseTerms, Settlement, StoredRun
from quiver.queues.state.retry_policy import RetryPolicy

GROUP = 3
NOW_MS = 10_000
SETTINGS = QueueSettings(max_attempts=3, backoff_ms=1_000)
_decoder = msgspec.msgpack.Decoder(Event)


class Lanes:
    """A state with the arguments that matter here."""

    def __init__(self, *keys: bytes | None, level: int = 2, read_ahead_limit: int = 1_000_000) -> None:
        self.state = LaneState(GROUP, 0, read_ahead_limit=read_ahead_limit)
        self.journal: list[bytes] = []
        self.lease = 0
        self.feed(*keys, level=level)

    def feed(self, *keys: bytes | None, level: int = 2) -> None:
        start = self.state.position(0)
        self.state.feed(0, [StoredRun(start, start + len(keys), level, list(keys))], start + len(keys))

    def take(self, count: int = 100, level: int = 2, now_ms: int = NOW_MS) -> list[int]:
        return [offset for offset, _ in self.take_attempts(count, level, now_ms)]

    def take_attempts(self, count: int = 100, level: int = 2, now_ms: int = NOW_MS) -> list[tuple[int, int]]:
        self.lease += 1
        taken = self.state.take(level, count, LeaseTerms(self.lease, "ann", now_ms + 30_000), now_ms)
        self.state.lease_taken()
        return [(offset, run.attempt) for run in taken for offset in range(run.start, run.end)]

    def ack(self, *offsets: int, lease: int | None = None) -> dict[int, str]:
        runs = [(offset, offset + 1) for offset in offsets]
        return refusals(self.state.ack(self.lease if lease is None else lease, runs))

    def nack(self, *offsets: int, delay_ms: int | None = 0, is_counted: bool = True, error: str = "") -> Settlement:
        return self.state.nack(
            self.lease,
            [(offset, offset + 1) for offset in offsets],
            RetryPolicy(
                now_ms=NOW_MS,
                delay_ms=delay_ms,
                is_counted=is_counted,
                error=error,
                settings=SETTINGS,
                jitter=1.0,
            ),
        )

    def available(self, now_ms: int = NOW_MS) -> int:
        return sum(self.state.available(now_ms))

    def restarted(self) -> "Lanes":
        """From its events alone."""
        self.journal += [msgspec.msgpack.encode(event) for event in self.state.events]
        self.state.events.clear()
        other = Lanes()
        other.lease, other.journal = self.lease, self.journal
        for record in self.journal:
            other.state.apply(_decoder.decode(record))
        return other


def refusals(settlement: Settlement) -> dict[int, str]:
    return {start: error.code for start, _, error, _ in settlement.refused}


def test_a_key_is_delivered_in_order_with_one_lease_at_a_time() -> None:
    lanes = Lanes(b"a", b"b", b"a", b"a")
    assert lanes.take(1) == [0]
    assert lanes.available() == 1
    assert lanes.take() == [1]
    assert lanes.take() == []
    assert lanes.ack(0, lease=1) == {}
    assert lanes.take() == [2, 3]


def test_a_lease_has_few_keys_rather_than_a_little_of_each() -> None:
    """So several consumers find something, however few keys there are."""
    lanes = Lanes(*[b"a", b"b", b"c"] * 4)
    assert lanes.take(4) == [0, 3, 6, 9]
    assert lanes.take(4) == [1, 4, 7, 10]
    assert lanes.available() == 4


def test_when_keys_are_many_messages_come_in_offset_order() -> None:
    """They are neighbours, which makes few runs, and there is enough left for others."""
    keys = [b"%d" % number for number in range(20)]
    lanes = Lanes(b"0", None, b"0", *keys[1:], b"0")
    assert lanes.take(5) == [0, 1, 2, 3, 4]
    lanes.feed(b"0")
    assert lanes.take(5) == [5, 6, 7, 8, 9]
    assert lanes.ack(0, 2, lease=1) == {}
    assert lanes.take(20) == [*range(10, 24)]


def test_neighbours_are_leased_as_one_run_whatever_their_keys() -> None:
    lanes = Lanes(b"a", b"b", b"a", None, b"c")
    [run] = lanes.state.take(2, 10, LeaseTerms(1, "ann", NOW_MS + 1), NOW_MS)
    assert (run.start, run.end, run.attempt, run.first_delivered_ms, run.last_error) == (0, 5, 1, NOW_MS, "")
    lanes.state.lease_taken()
    [event] = lanes.state.events
    assert isinstance(event, Leased)
    assert [(each.start, each.key) for each in event.runs] == [(0, b"a"), (2, b"a"), (1, b"b"), (3, None), (4, b"c")]


def test_messages_are_settled_in_the_order_of_their_key() -> None:
    lanes = Lanes(b"a", b"b", b"a", b"a")
    lanes.take()
    assert lanes.ack(2) == {2: "settle_in_order"}
    assert lanes.ack(1) == {}
    assert lanes.ack(3, 0) == {3: "settle_in_order"}
    assert lanes.ack(3, 2) == {}
    assert lanes.ack(0) == {0: "lease_lost"}
    assert lanes.state.counts().leased == 0


def test_the_order_of_a_call_does_not_matter() -> None:
    lanes = Lanes(b"a", b"a", b"a")
    lanes.take()
    assert refusals(lanes.state.ack(1, [(2, 3), (0, 1), (1, 2)])) == {}


def test_the_first_nack_gives_back_the_rest_which_is_not_counted() -> None:
    lanes = Lanes(b"a", b"b", b"a", b"a")
    lanes.take()
    settlement = lanes.nack(0, delay_ms=500, error="boom")
    assert settlement.until_ms == NOW_MS + 500
    assert lanes.ack(2) == {2: "lease_lost"}
    assert lanes.available(NOW_MS + 499) == 0
    assert lanes.take_attempts(now_ms=NOW_MS + 500) == [(0, 2), (2, 1), (3, 1)]
    assert lanes.ack(1, lease=1) == {}


def test_nacking_a_whole_run_counts_its_first_message() -> None:
    lanes = Lanes(b"a", b"a", b"a")
    lanes.take()
    assert refusals(lanes.nack(0, 1, 2)) == {}
    assert lanes.take_attempts() == [(0, 2), (1, 1), (2, 1)]


def test_what_is_before_a_nack_stays_leased() -> None:
    lanes = Lanes(b"a", b"a", b"a")
    lanes.take()
    lanes.nack(1, delay_ms=1_000)
    assert lanes.take() == []
    assert lanes.ack(0, lease=1) == {}
    assert lanes.take(now_ms=NOW_MS + 999) == []
    assert lanes.take_attempts(now_ms=NOW_MS + 1_000) == [(1, 2), (2, 1)]


def test_after_a_dead_message_the_lane_goes_on() -> None:
    lanes = Lanes(b"a", b"a", b"a")
    lanes.take()
    for _ in range(2):
        lanes.nack(0, error="boom")
        lanes.take()
    [dead] = lanes.nack(0, error="last words").dead
    assert (dead.start, dead.end, dead.attempts, dead.reason, dead.error) == (0, 1, 3, "max_attempts", "last words")
    assert lanes.take_attempts() == [(1, 1), (2, 1)]
    [dead] = lanes.state.reject(lanes.lease, [(1, 2)], "not mine").dead
    assert (dead.start, dead.attempts, dead.reason, dead.error) == (1, 1, "rejected", "not mine")
    assert lanes.ack(2) == {}


def test_a_failing_key_holds_up_itself_alone() -> None:
    lanes = Lanes(b"bad", b"good", b"bad", b"good")
    lanes.take()
    assert lanes.ack(1, 3) == {}
    lanes.nack(0, delay_ms=60_000)
    lanes.feed(b"bad", b"good", b"good")
    assert lanes.take() == [5, 6]
    assert lanes.state.blocked_keys(NOW_MS, 10) == [(b"bad", 2)]
    assert lanes.state.blocked_keys(NOW_MS + 60_000, 10) == []


def test_expiry_counts_the_first_of_a_run() -> None:
    lanes = Lanes(b"a", b"a", None, None)
    lanes.take()
    assert lanes.state.expire(NOW_MS + 30_000, SETTINGS) == []
    assert lanes.take_attempts(now_ms=NOW_MS + 30_000) == [(0, 2), (1, 1), (2, 2), (3, 2)]


def test_expiry_does_not_count_if_the_settings_say_so() -> None:
    lanes = Lanes(b"a", b"a", None)
    lanes.take()
    assert lanes.state.key_lease(b"a", with_runs=True) == (1, 0, 1, NOW_MS + 30_000, [(0, 2)])
    assert lanes.state.leased_keys(1) == ([(0, 1), (2, 3)], NOW_MS + 30_000)
    settings = QueueSettings(max_attempts=1, count_expired=False)
    assert lanes.state.expire(NOW_MS + 30_000, settings) == []
    assert lanes.state.key_lease(b"a") is None
    assert lanes.state.leased_keys(1) is None
    assert lanes.restarted().take_attempts(now_ms=NOW_MS + 30_000) == [(0, 1), (1, 1), (2, 1)]
    assert lanes.take_attempts(now_ms=NOW_MS + 30_000) == [(0, 1), (1, 1), (2, 1)]


def test_a_late_ack_counts_until_somebody_else_has_the_message() -> None:
    lanes = Lanes(b"a", b"a", b"b")
    lanes.take()
    late_ms = NOW_MS + 40_000
    lanes.state.expire(late_ms, SETTINGS)
    assert lanes.ack(0) == {}
    assert lanes.ack(2) == {}
    lanes.state.expire(late_ms, SETTINGS)
    assert lanes.take_attempts(now_ms=late_ms) == [(1, 2)]
    assert lanes.ack(1, lease=1) == {1: "lease_lost"}


def test_extending_one_message_extends_its_key() -> None:
    lanes = Lanes(b"a", b"a", b"b")
    lanes.take()
    assert lanes.state.extend(1, [(1, 2)], NOW_MS + 90_000).until_ms == NOW_MS + 90_000
    lanes.state.expire(NOW_MS + 60_000, SETTINGS)
    assert lanes.take(now_ms=NOW_MS + 60_000) == [2]
    assert lanes.ack(0, 1, lease=1) == {}


def test_messages_without_a_key_have_no_order() -> None:
    lanes = Lanes(None, None, None, None)
    assert lanes.take(2) == [0, 1]
    assert lanes.take(1) == [2]
    assert lanes.ack(1, lease=1) == {}
    assert lanes.ack(2, lease=2) == {}
    assert lanes.take() == [3]
    assert lanes.state.lowest_unsettled() == 0


def test_a_lane_has_the_level_of_its_first_message() -> None:
    lanes = Lanes(b"a", level=4)
    lanes.feed(b"a", b"b", level=0)
    assert lanes.state.available(NOW_MS) == [1, 0, 0, 0, 1]
    assert lanes.take(level=0) == [2]
    assert lanes.take(level=4) == [0]
    assert lanes.state.available(NOW_MS) == [0] * 5
    assert lanes.ack(0) == {}
    assert lanes.state.available(NOW_MS) == [1, 0, 0, 0, 0]
    assert lanes.take(level=0) == [1]


def test_reading_ahead_stops_at_the_limit_and_goes_on_when_there_is_room() -> None:
    lanes = Lanes(b"stuck", read_ahead_limit=10)
    lanes.take()
    keys = [b"stuck"] * 25
    lanes.state.feed(0, [StoredRun(1, 26, 2, keys)], 26)
    assert lanes.state.position(0) == 11
    assert lanes.state.counts().read_ahead == 10
    assert lanes.state.blocked_keys(NOW_MS, 5) == [(b"stuck", 10)]
    lanes.state.feed(0, [StoredRun(11, 26, 2, keys[10:])], 26)
    assert lanes.state.position(0) == 11
    lanes.ack(0)
    assert lanes.take(4) == [1, 2, 3, 4]
    lanes.state.feed(0, [StoredRun(11, 26, 2, keys[10:])], 26)
    assert lanes.state.position(0) == 15


def test_after_a_restart_nothing_is_delivered_twice_and_nothing_is_left_out() -> None:
    lanes = Lanes(b"a", b"a", b"b", b"a", b"c")
    lanes.take(1)
    lanes.take(2)
    lanes.ack(2)
    again = lanes.restarted()
    assert again.state.position(0) == 1
    again.feed(b"a", b"b", b"a", b"c", b"d")
    assert again.take() == [5]
    assert again.ack(0, lease=1) == {}
    assert again.take() == [1, 3]
    assert again.ack(4, lease=2) == {}
    assert again.ack(1, 3) == {}
    assert again.ack(5, lease=3) == {}
    assert again.state.lowest_unsettled() == 6


def test_reading_goes_on_behind_what_was_done_before_a_restart() -> None:
    """A key that is stuck for days does not have everything behind it read again."""
    lanes = Lanes(b"stuck", b"stuck", *[b"%d" % number for number in range(1_000)])
    lanes.take(1)
    lanes.take(1_000)
    again = lanes.restarted()
    assert again.state.position(0) == 1
    again.feed(b"stuck")
    assert again.state.position(0) == 1_002


def test_two_leases_that_are_filled_at_once_are_written_together() -> None:
    """A position must not go beyond what another lease took and nobody has written."""
    lanes = Lanes(b"a", b"b", b"c")
    for lease in (1, 2):
        lanes.state.take(2, 1, LeaseTerms(lease, "ann", NOW_MS + 1), NOW_MS)
    lanes.state.lease_taken()
    assert [(event.lease, event.positions) for event in lanes.state.events] == [(1, [2]), (2, [2])]  # type: ignore[attr-defined]


def test_a_snapshot_does_not_know_of_leases_that_are_on_no_event() -> None:
    lanes = Lanes(b"a", b"b", None, b"b")
    lanes.take(1)
    lanes.state.take(2, 2, LeaseTerms(9, "bob", NOW_MS + 1), NOW_MS)
    other = Lanes()
    other.state.restore(list(lanes.state.snapshot()))
    assert other.state.position(0) == 1
    other.feed(b"b", None, b"b")
    assert other.take() == [1, 2, 3]
    assert other.ack(0, lease=1) == {}


def test_a_snapshot_that_is_taken_while_leases_change_ends_where_the_group_was() -> None:
    lanes = Lanes(*[b"%d" % number for number in range(1_200)])
    lanes.take(1_200)
    snapshot = lanes.state.snapshot()
    lanes.state.events.clear()
    chunks = [next(snapshot), next(snapshot)]
    lanes.state.ack(1, [(0, 10), (1_100, 1_200)])
    lanes.state.nack(
        1,
        [(10, 20), (1_000, 1_010)],
        RetryPolicy(
            now_ms=NOW_MS,
            delay_ms=0,
            is_counted=True,
            error="boom",
            settings=SETTINGS,
            jitter=1.0,
        ),
    )
    lanes.take(5)
    other = Lanes()
    other.state.restore([*chunks, *snapshot])
    for event in lanes.state.events:
        other.state.apply(event)
    assert other.state.counts() == lanes.state.counts()
    assert other.state.available(NOW_MS) == lanes.state.available(NOW_MS)
    assert other.state.held_by() == lanes.state.held_by()
    assert other.state.lowest_unsettled() == lanes.state.lowest_unsettled() == 10


def test_what_was_settled_is_not_put_back_into_another_life() -> None:
    lanes = Lanes(b"a", b"b", b"c")
    lanes.take()
    early = lanes.state.ack(1, [(0, 1)])
    late = lanes.state.ack(1, [(2, 3)])
    lanes.state.settle_below(1)
    lanes.state.take_back(early.undo)
    lanes.state.take_back(late.undo)
    assert lanes.state.counts().leased == 2
    lanes.state.ack(1, [(2, 3)])
    lanes.state.apply(Rewound(GROUP, 0))
    lanes.state.take_back(late.undo)
    assert lanes.state.counts().leased == 0
    assert lanes.state.position(0) == 0


def test_an_ack_that_is_taken_back_comes_before_what_somebody_else_has_of_the_key_by_now() -> None:
    lanes = Lanes(b"a", b"a")
    lanes.take(1)
    settlement = lanes.state.ack(1, [(0, 1)])
    assert lanes.take(1) == [1]
    lanes.state.take_back(settlement.undo)
    assert lanes.state.counts().leased == 1
    assert lanes.ack(1, lease=2) == {1: "lease_lost"}
    assert lanes.ack(0, lease=1) == {}
    assert lanes.take(1) == [1]


def test_a_nack_that_is_taken_back_leaves_the_message_with_whoever_has_it_now() -> None:
    lanes = Lanes(b"a")
    lanes.take(1)
    settlement = lanes.nack(0)
    assert lanes.take(1) == [0]
    lanes.state.take_back(settlement.undo)
    assert lanes.ack(0, lease=2) == {}


def test_events_name_the_key_of_what_is_leased_again() -> None:
    lanes = Lanes(b"a", None)
    lanes.take()
    lanes.nack(0, 1)
    lanes.state.events.clear()
    lanes.take()
    [event] = lanes.state.events
    assert isinstance(event, Leased)
    assert event.runs == [LeasedRun(0, 1, 2, 2, NOW_MS, 0, b"a"), LeasedRun(1, 2, 2, 2, NOW_MS, 0, None)]
