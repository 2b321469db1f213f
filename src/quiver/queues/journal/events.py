"""The records of a partition's delivery journal, as MessagePack."""

import msgspec

from quiver.model.queue import Ordering
from quiver.outbox.outbox import Move
from quiver.queues.state.port import Dead, Run


class GroupEvent(msgspec.Struct, frozen=True, array_like=True):
    group: int


class Began(GroupEvent, frozen=True, tag=0):
    """A group's first use of the partition."""

    ordering: Ordering
    in_offset_order: bool
    """Levels do not count: for groups whose members poll."""
    start: int
    version: int = 0
    """The group's commit that it begins at."""


class LeasedRun(msgspec.Struct, frozen=True, array_like=True):
    start: int
    end: int
    level: int
    attempt: int
    first_delivered_ms: int
    previous_lease: int = 0
    """The lease it was in before; 0 at its first delivery."""
    key: bytes | None = None


class Leased(GroupEvent, frozen=True, tag=1):
    lease: int
    consumer: str
    deadline_ms: int
    runs: list[LeasedRun]
    positions: list[int]
    """Per level: everything below was leased or settled before, or is in this lease. One entry when levels do not
    count."""


class Acked(GroupEvent, frozen=True, tag=2):
    lease: int
    runs: list[Run]


class ReturnedRun(msgspec.Struct, frozen=True, array_like=True):
    start: int
    end: int
    attempts: int
    """Deliveries so far that count."""
    due_ms: int


class Returned(GroupEvent, frozen=True, tag=3):
    """Given back: waits for its next delivery."""

    lease: int
    runs: list[ReturnedRun]
    error: str


class Extended(GroupEvent, frozen=True, tag=4):
    lease: int
    runs: list[Run]
    deadline_ms: int


class Died(GroupEvent, frozen=True, tag=5):
    """Settled here, and on their way to the dead-letter topic."""

    dead: list[Dead]
    moves: list[Move]


class SettledBelow(GroupEvent, frozen=True, tag=6):
    offset: int
    version: int | None = None
    """The commit of the group that this follows, if it is one."""


class Rewound(GroupEvent, frozen=True, tag=7):
    """The group begins again at an offset: everything at or above it is unread, everything below settled."""

    offset: int
    version: int | None = None
    """The commit of the group that this follows, if it is one."""


class Forgotten(GroupEvent, frozen=True, tag=8):
    """The group is gone."""


class MoveDone(msgspec.Struct, frozen=True, array_like=True, tag=9):
    move_id: int


class WrittenAt(msgspec.Struct, frozen=True, array_like=True, tag=11):
    """The time by the clock of leases when the events after it were written: first in every record."""

    now_ms: int


class AcksPrepared(GroupEvent, frozen=True, tag=12):
    """A transaction that another worker decides acks these: until it has ended, the lease holds them.

    Their lease was extended for that, by an event before this one.
    """

    decision: int
    """The number of the decision that is being made."""
    lease: int
    runs: list[Run]


class AcksEnded(msgspec.Struct, frozen=True, array_like=True, tag=13):
    """The transaction has ended. If it was committed, the acks come before this; otherwise the lease goes on."""

    decision: int


DeadLetterOrigin = tuple[str, int, int, str]
"""Topic, partition and offset of the message that became a dead letter, and the group that gave it up."""


class DeadLettersRemoved(msgspec.Struct, frozen=True, array_like=True, tag=10):
    """In a dead-letter topic: these were sent back, or purged (without moves)."""

    runs: list[Run]
    moves: list[Move]
    origins: list[DeadLetterOrigin | None] = []
    """Where each of them came from, in the order of the runs: the life of a message knows it when they are gone."""


Event = (
    Began
    | Leased
    | Acked
    | Returned
    | Extended
    | Died
    | SettledBelow
    | Rewound
    | Forgotten
    | MoveDone
    | DeadLettersRemoved
    | WrittenAt
    | AcksPrepared
    | AcksEnded
)
