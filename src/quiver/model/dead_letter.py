"""Dead letters: messages that a queue group gave up, how they are listed, searched and named."""

import zlib
from typing import NamedTuple

import msgspec

from quiver.model.errors import InvalidRequest
from quiver.model.limits import NAME_LENGTH
from quiver.model.numbers import shown, whole_number
from quiver.model.priority import Priority

SUFFIX = ".dlq"
HEADER_PREFIX = "dlq."
_HEADER_FIELDS = (
    "topic",
    "partition",
    "offset",
    "key",
    "timestamp",
    "appended_at",
    "attempts",
    "first_delivered",
    "group",
    "reason",
    "error",
    "died_at",
    "ttl",
)
HEADER_NAMES = frozenset(HEADER_PREFIX + field for field in _HEADER_FIELDS)
"""The headers that say why the message became a dead letter; all others are the message's own."""
_HASH_DIGITS = 8


def is_dead_letter_topic(name: str) -> bool:
    return name.endswith(SUFFIX)


def dead_letter_topic(topic: str) -> str:
    """The topic for the dead letters of a topic: its name with `.dlq`. A dead-letter topic is its own.

    A name that would get too long is cut, and ends with a checksum of the whole name.
    """
    if is_dead_letter_topic(topic):
        return topic
    if len(topic) + len(SUFFIX) <= NAME_LENGTH:
        return topic + SUFFIX
    kept = topic[: NAME_LENGTH - len(SUFFIX) - _HASH_DIGITS - 1]
    return f"{kept}-{zlib.crc32(topic.encode()):0{_HASH_DIGITS}x}{SUFFIX}"


class DeadLetterId(NamedTuple):
    """Where a dead letter is in the dead-letter topic. Users write it `partition:offset`."""

    partition: int
    offset: int

    def __str__(self) -> str:
        return f"{self.partition}:{self.offset}"


def parse_dead_letter_id(text: object) -> DeadLetterId:
    numbers = [whole_number(part) for part in text.split(":")] if isinstance(text, str) else []
    match numbers:
        case [int(partition), int(offset)]:
            return DeadLetterId(partition, offset)
    raise InvalidRequest(problem=f"{shown(text)} is not the id of a dead letter, such as 0:42")


class DeadLetterCursor(NamedTuple):
    """A position in the list of dead letters, ordered by the time of dead-lettering. Users get it as text and send it
    back."""

    died_at_ms: int
    partition: int
    offset: int

    def __str__(self) -> str:
        return f"{self.partition}:{self.offset}:{self.died_at_ms}"


def parse_dead_letter_cursor(text: object) -> DeadLetterCursor:
    numbers = [whole_number(part) for part in text.split(":")] if isinstance(text, str) else []
    match numbers:
        case [int(partition), int(offset), int(died_at_ms)]:
            return DeadLetterCursor(died_at_ms, partition, offset)
    raise InvalidRequest(problem=f"after: {shown(text)} is not the `next` of a page of dead letters")


class Original(msgspec.Struct, frozen=True, array_like=True):
    """Where a dead letter came from."""

    topic: str
    partition: int
    offset: int
    appended_at_ms: int | None = None
    first_delivered_ms: int | None = None


class DeadLetter(msgspec.Struct, frozen=True, array_like=True):
    partition: int
    offset: int
    timestamp_ms: int
    """The message's own."""
    died_at_ms: int
    """When it was appended to the dead-letter topic."""
    key: bytes | None
    value: bytes | None
    headers: dict[str, bytes]
    """The message's own; the headers about the dead-lettering are in the other fields."""
    priority: Priority
    reason: str = ""
    """max_attempts, rejected or expired; empty when it was published here directly."""
    last_error: str = ""
    attempts: int = 0
    group: str = ""
    original: Original | None = None

    @property
    def id(self) -> DeadLetterId:
        return DeadLetterId(self.partition, self.offset)

    @property
    def cursor(self) -> DeadLetterCursor:
        return DeadLetterCursor(self.died_at_ms, self.partition, self.offset)


class DeadLetterFilter(msgspec.Struct, frozen=True, array_like=True, kw_only=True):
    """Selects the dead letters that match every given field; without any, all of them."""

    ids: list[tuple[int, int]] | None = None
    """(partition, offset) in the dead-letter topic."""
    partition: int | None = None
    group: str | None = None
    reason: str | None = None
    key: bytes | None = None
    contains: bytes | None = None
    """Bytes that are in the value or in the last error."""
    from_time_ms: int | None = None
    to_time_ms: int | None = None
    """The time of dead-lettering, inclusive."""

    def fits(self, dead_letter: DeadLetter) -> bool:
        """Checks everything but times and ids: the search itself goes by those."""
        return (
            (self.group is None or dead_letter.group == self.group)
            and (self.reason is None or dead_letter.reason == self.reason)
            and (self.key is None or dead_letter.key == self.key)
            and (self.contains is None or self._is_in(dead_letter))
        )

    def _is_in(self, dead_letter: DeadLetter) -> bool:
        assert self.contains is not None
        return self.contains in (dead_letter.value or b"") or self.contains in dead_letter.last_error.encode()
