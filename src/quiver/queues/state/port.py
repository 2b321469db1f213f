"""What a queue group knows of one partition: the contract that both kinds of ordering keep. Pure, no clock, no I/O.

The shell reads the log and feeds what it finds (`position`, `feed`), asks what is available (`available`), takes it
(`take`) and settles it. Everything below a position is settled unless it is *unsettled*: fed and not taken, leased,
or waiting for a retry. Offsets that were never fed (holes, control frames) need no entry.

Every change returns what it did or leaves it in `events`, which the shell drains into the journal; `apply` takes
the same events back at start-up. A snapshot may hold changes whose events come after it, so applying an event again
changes nothing that later events do not put right.
"""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple, Protocol

import msgspec

from quiver.model.errors import QuiverError
from quiver.model.queue import QueueSettings
from quiver.outbox.outbox import Move
from quiver.queues.state.retry_policy import RetryPolicy
from quiver.structures.interval_set import IntervalSet

LEVELS = 5
LEASE_EXPIRED = "the lease expired"
"""The last error of a message whose consumer did not settle it in time."""
Run = tuple[int, int]
"""Offsets, half open."""


class StoredRun(NamedTuple):
    """Stored messages without a hole between them, as the shell found them in the log."""

    start: int
    end: int
    level: int
    keys: Sequence[bytes | None] = ()
    """Of each message; only for groups that are ordered by key."""


class LeaseTerms(NamedTuple):
    """What messages are leased under. Several takes may add to one lease."""

    lease: int
    consumer: str
    deadline_ms: int
    """By the clock of leases."""
    keys: "KeyLimit | None" = None
    """Only in groups that are ordered by key."""


class KeyLimit:
    """Which keys a receiver takes, over all partitions: one that it names, or any, up to a number of them."""

    __slots__ = ("key", "left")

    def __init__(self, key: bytes | None, left: int = 1) -> None:
        self.key = key
        self.left = left
        """How many more keys; `take` counts down."""


class Taken(NamedTuple):
    """Leased just now. Runs come in the order of delivery."""

    start: int
    end: int
    level: int
    attempt: int
    first_delivered_ms: int
    last_error: str


class Dead(msgspec.Struct, frozen=True, array_like=True):
    """Messages that the group gives up: settled here, to be moved to the dead-letter topic."""

    start: int
    end: int
    level: int
    attempts: int
    first_delivered_ms: int
    reason: str
    """max_attempts, rejected, or expired."""
    error: str


class Refused(NamedTuple):
    start: int
    end: int
    error: QuiverError
    is_settled: bool = False
    """The group is done with these messages. Only looked up for repeats."""


class Settlement(NamedTuple):
    refused: list[Refused]
    """LeaseLost, or SettleInOrder. Whatever of the runs is not here is done."""
    dead: Sequence[Dead] = ()
    until_ms: int | None = None
    undo: Any = None
    """For `take_back`, should the journal not take the change."""
    moves: Sequence[Move] = ()
    """What carries the dead away; the shell's."""


class HeldRun(NamedTuple):
    """Messages that a consumer holds now."""

    start: int
    end: int
    level: int
    attempt: int
    """Of this delivery, from 1."""
    first_delivered_ms: int
    """By the wall clock."""
    lease: int
    consumer: str
    deadline_ms: int
    """By the clock of leases."""
    key: bytes | None = None


class BlockedKey(NamedTuple):
    """A key whose messages wait for an earlier one that is leased or retried."""

    key: bytes
    waiting: int
    offset: int
    """Of the message that blocks."""


class Counts(NamedTuple):
    leased: int
    retrying: int
    """Given back or expired, and not delivered again yet."""
    read_ahead: int
    """Fed and not taken yet."""
    by_level_leased: tuple[int, ...]


class GroupState(Protocol):
    events: list[msgspec.Struct]
    """Of quiver.queues.journal.events; drained by the shell after every change."""

    def position(self, level: int) -> int:
        """Where reading continues for a level. The same for all levels in groups that are read in offset order."""
        ...

    def feed(self, level: int, runs: Sequence[StoredRun], position: int) -> None:
        """What the log holds of a level from its position up to the new one, without gaps, in order."""
        ...

    def available(self, now_ms: int) -> list[int]:
        """Per level, how many messages `take` could lease now of what was fed, including retries that are due."""
        ...

    def take(
        self, level: int, count: int, terms: LeaseTerms, now_ms: int, delivered_ms: int | None = None
    ) -> list[Taken]:
        """Leases up to `count` messages of a level, due retries first, then in offset order.

        `delivered_ms` is the time of delivery by the wall clock; all other times are those of the clock of leases.
        `lease_taken` adds the event.
        """
        ...

    def lease_taken(self) -> None:
        """Adds the events for what was taken since the last call. More may be added to a lease afterwards."""
        ...

    def ack(self, lease: int, runs: Sequence[Run]) -> Settlement: ...

    def nack(self, lease: int, runs: Sequence[Run], policy: RetryPolicy) -> Settlement:
        """Gives back, to be delivered again or, out of attempts, dead."""
        ...

    def reject(self, lease: int, runs: Sequence[Run], reason: str) -> Settlement: ...

    def extend(self, lease: int, runs: Sequence[Run], deadline_ms: int) -> Settlement: ...

    def drop(self, lease: int, runs: Sequence[Run], reason: str) -> list[Dead]:
        """Messages that were just taken turn out to be expired or gone: dead, and this delivery does not count."""
        ...

    def take_back(self, undo: Any) -> None:
        """Undoes a settlement that could not be journaled, except where messages were changed since."""
        ...

    def end_leases(self, consumer: str) -> None:
        """What the consumer holds becomes available at once; the deliveries count."""
        ...

    def expire(self, now_ms: int, settings: QueueSettings, *, may_die: bool = True) -> list[Dead]:
        """Ends expired leases: the messages are available at once, or dead when out of attempts (if `may_die`).

        If there are very many, some of them: then `next_time_ms` is still in the past, and the shell calls again.
        """
        ...

    def next_time_ms(self) -> int | None:
        """When a lease ends or a retry is due next: the time to call `expire` and `available` again."""
        ...

    def settle_below(self, offset: int) -> int:
        """Everything below is settled, leased or not; returns how many messages that were unsettled are gone."""
        ...

    def lowest_unsettled(self, *, newest: Sequence[int] | None = None, end: int = 0) -> int:
        """Everything below is settled: the group's committed offset.

        With `newest`, a level that is read by itself and was read up to there has nothing below `end`, and does not
        hold it back. Changes nothing.
        """
        ...

    def settled(self, runs: Sequence[Run], level: int) -> IntervalSet:
        """Which of these messages, all of one level, are settled. Changes nothing.

        Costs a step per unsettled message: for settlements that are sent again, not for every one.
        """
        ...

    def held_by(self) -> dict[str, int]:
        """Messages leased now, by consumer."""
        ...

    def held(self, offset: int, limit: int) -> tuple[list[HeldRun], int | None]:
        """What consumers hold from an offset on, about `limit` messages, and where the next of them begin.

        In offset order; in groups ordered by key, in the order of each key's first message that was delivered.
        """
        ...

    def counts(self) -> Counts: ...

    def blocked_keys(self, now_ms: int, limit: int) -> list[tuple[bytes, int]]:
        """Keys whose messages wait for an earlier one that is leased or retried, and how many; most first."""
        ...

    def blocked(self, now_ms: int, limit: int) -> list[BlockedKey]:
        """The same, with what blocks them."""
        ...

    def apply(self, event: msgspec.Struct) -> None:
        """An event from the journal, at start-up."""
        ...

    def snapshot(self) -> Iterator[bytes]:
        """The state for a snapshot, in chunks of bounded size; changes may happen between them."""
        ...

    def restore(self, chunks: Sequence[bytes], ahead_ms: int = 0) -> None:
        """The state from the chunks of a snapshot, whose times are `ahead_ms` too late."""
        ...
