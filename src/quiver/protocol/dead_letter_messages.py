"""Requests and responses about dead letters. A topic is named by itself, or by its dead-letter topic."""

from quiver.model.dead_letter import DeadLetter, DeadLetterCursor, DeadLetterFilter
from quiver.protocol.message import Message


class ListDeadLetters(Message, tag=50, frozen=True):
    topic: str
    filter: DeadLetterFilter
    limit: int = 1000
    skip: int = 0
    after: DeadLetterCursor | None = None
    """`next` of the page before."""
    newest_first: bool = False


class RedriveDeadLetters(Message, tag=51, frozen=True):
    topic: str
    filter: DeadLetterFilter
    limit: int | None = None
    to: str | None = None
    """Another topic than the one they came from."""
    dry_run: bool = False
    after: DeadLetterCursor | None = None


class PurgeDeadLetters(Message, tag=52, frozen=True):
    topic: str
    filter: DeadLetterFilter
    limit: int | None = None
    dry_run: bool = False
    after: DeadLetterCursor | None = None


class ListRemovedDeadLetters(Message, tag=53, frozen=True):
    topic: str
    start: tuple[int, int] = (0, 0)
    """Partition and offset to begin at: `next` of the response before."""


DeadLetterRequest = ListDeadLetters | RedriveDeadLetters | PurgeDeadLetters | ListRemovedDeadLetters


class DeadLetters(Message, tag=150, frozen=True):
    dead_letters: list[DeadLetter]
    total: int
    """In the dead-letter topic, whatever was looked for."""
    next: DeadLetterCursor | None
    """None after the last one."""


class TakenDeadLetters(Message, tag=151, frozen=True):
    """Sent back or purged, or what would be."""

    count: int
    ids: list[tuple[int, int]]
    """The first thousand, as partition and offset in the dead-letter topic."""
    missing: list[tuple[int, int]]
    """Asked for by id, and not there."""
    next: DeadLetterCursor | None
    """Where to go on when the limit was reached."""
    at_ms: int
    """When, by the broker's clock."""


class RemovedDeadLetters(Message, tag=152, frozen=True):
    """Sent back or purged, though the log of the dead-letter topic still has them."""

    runs: list[tuple[int, int, int]]
    """Partition, first offset, and the offset after the last."""
    next: tuple[int, int] | None
    """None after the last one."""


DeadLetterResponse = DeadLetters | TakenDeadLetters | RemovedDeadLetters
