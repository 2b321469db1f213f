"""Requests and responses about searches."""

from typing import Literal

import msgspec

from quiver.model.position import EARLIEST, LATEST, Position
from quiver.model.priority import Priority
from quiver.protocol.message import Message


class BeginSearch(Message, tag=30, frozen=True):
    topic: str
    where: str
    start: Position = EARLIEST
    end: Position = LATEST
    partitions: list[int] | None = None
    newest_first: bool = True
    include_expired: bool = False
    limit: int = 100
    max_messages: int | None = None
    max_bytes: int | None = None
    max_seconds: float = 60.0
    cursor: str | None = None


class GetSearch(Message, tag=31, frozen=True):
    id: str
    after: int = 0
    """How many of its messages are known already."""
    wait_ms: int = 0


class CancelSearch(Message, tag=32, frozen=True):
    id: str


SearchRequest = BeginSearch | GetSearch | CancelSearch


class FoundRow(msgspec.Struct, array_like=True, frozen=True):
    partition: int
    offset: int
    timestamp_ms: int
    append_time_ms: int
    key: bytes | None
    value: bytes | None
    headers: dict[str, bytes]
    priority: Priority


class SearchProgress(Message, tag=130, frozen=True):
    """A search as it is now."""

    id: str
    state: Literal["running", "done", "cancelled", "failed"]
    scanned: int
    """Offsets that it has looked at, of `total`."""
    total: int
    scanned_messages: int
    scanned_bytes: int
    matched: int
    messages: list[FoundRow]
    """Without the first `after`."""
    cursor: str | None
    """Where to go on, if it has ended and there is more."""
    stopped_by: str | None
    """limit, max_messages, max_bytes, max_seconds or result_bytes."""
    error: str | None
    seconds: float


SearchResponse = SearchProgress
