"""What is remembered about a transactional producer, and the results of commits."""

from typing import NamedTuple

import msgspec

from quiver.model.transaction import ProducerKey


class LastEnd(msgspec.Struct, frozen=True, array_like=True):
    """How a producer's last transaction ended, for repeated requests."""

    decision: int
    epoch: int
    commit: bool
    next: ProducerKey
    at_ms: int


class Producer(msgspec.Struct, array_like=True):
    epoch: int
    """The current epoch."""
    transactional_id: str | None
    timeout_ms: int
    used_at_ms: int
    is_touched: bool = False
    """Its transaction has offsets or acks."""
    last: LastEnd | None = None


class CommitKey(NamedTuple):
    """The name that a caller gives a commit: the same key again is the same commit, and gets the same result."""

    name: str
    description: str | None = None
    """What is committed, in the caller's words. The same key with another description is refused."""


class Answer(NamedTuple):
    """The result of a commit or abort."""

    commit: bool
    producers: list[ProducerKey]
    is_repeat: bool = False


class KeyedAnswer(msgspec.Struct, frozen=True, array_like=True):
    """The result of a commit with a key, for repeats with the same key."""

    at_ms: int
    producers: list[ProducerKey]
    description: str | None = None
