"""The life of a message: what happened to it, and where it is now for each group."""

from typing import Literal

import msgspec

Happening = Literal[
    "published",
    "delayed",
    "appended",
    "transaction_committed",
    "transaction_aborted",
    "delivered",
    "extended",
    "acked",
    "nacked",
    "given_back",
    "lease_ended",
    "dead_lettered",
    "lost",
    "committed",
    "passed_over",
    "rewound",
    "redriven",
    "purged",
]
"""docs/tracing.md says what each means."""

Standing = Literal["waiting", "leased", "retrying", "settled", "dead", "unknown"]


class Place(msgspec.Struct, frozen=True, array_like=True):
    """A message in a topic."""

    topic: str
    partition: int
    offset: int | None = None
    """None: it is not there yet, or could not be found."""


class LifeEvent(msgspec.Struct, frozen=True, array_like=True):
    event: Happening
    time_ms: int | None
    """By the broker's clock; `published` has the time that the producer gave. None: it is not known any more."""
    group: str = ""
    consumer: str = ""
    attempt: int = 0
    duration_ms: int | None = None
    """Of a delivery and of what ended it: how long the consumer had the message."""
    error: str = ""
    reason: str = ""
    until_ms: int | None = None
    """When the lease ends, the message is delivered again at the earliest, or a delayed message is due."""
    to: Place | None = None
    origin: Place | None = None
    delayed_id: int | None = None
    """What publishing the delayed message returned."""
    transaction: str = ""
    """Producer id and epoch, as `quiver txn list` shows them."""


class GroupStanding(msgspec.Struct, frozen=True, array_like=True):
    """What a group still has to do with a message."""

    group: str
    kind: str
    state: Standing
    attempts: int = 0
    """Deliveries so far, as far as the journal knows."""


class FrameFacts(msgspec.Struct, frozen=True, array_like=True):
    """The frame that a message lies in, with others that were sent together with it."""

    first_offset: int
    last_offset: int
    messages: int
    stored_bytes: int
    body_bytes: int
    """Before compression."""
    compression: str
    producer_id: int
    """-1: its producer is not idempotent."""


class MessageLife(msgspec.Struct, frozen=True, array_like=True):
    topic: str
    partition: int
    offset: int
    events: list[LifeEvent]
    """In order."""
    groups: list[GroupStanding]
    known_since_ms: int | None = None
    """The journal of deliveries begins here: earlier deliveries are not known. None: it knows all of them."""
    notes: list[str] = msgspec.field(default_factory=list)
    """What could not be found out, as sentences."""
    trace: str = ""
    """The trace id of the message's `traceparent` header."""
    frame: FrameFacts | None = None
