"""Messages that are gathered until there are enough for a frame."""

from collections.abc import Mapping
from typing import NamedTuple, TypeVar

from quiver.client.produce.batches.send_outcome import SendOutcome
from quiver.client.produce.route import PLAIN_ROUTE, Route
from quiver.client.produce.rows import Rows

SMALL_VALUE_BYTES = 1024
SMALL_KEY_BYTES = 256
_STEP = 512

_Item = TypeVar("_Item")


class Outgoing(NamedTuple):
    """One message, ready to be gathered."""

    value: bytes | None
    key: bytes | None
    headers: Mapping[str, bytes] | None
    timestamp_ms: int | None
    expires_at_ms: int | None
    deliver_at_ms: int | None = None
    id: bytes | None = None


class Chunk:
    """Columns of messages with one route.

    The thread that owns a chunk appends small messages to `values` (after `keys`) itself, without a lock. It first
    gets references to both lists, because `rows` replaces them; it appends while the row is below `plain_until` (a
    value alone) or `keyed_until` (with a key), and checks that limit again afterwards. Another thread seals the chunk
    by setting both limits to 0 and then fixing the row count. So if the row is still below the limit after the
    append, the message is in the chunk; otherwise `keeps` says whether it is. The limits stay low enough that a chunk
    cannot grow far beyond its size unnoticed. Everything else happens under the producer's mutex.
    """

    __slots__ = (
        "_due",
        "_expiries",
        "_headers",
        "_ids",
        "_measured",
        "_sealed_count",
        "_timestamps",
        "keyed_until",
        "keys",
        "opened_at",
        "outcome",
        "plain_until",
        "route",
        "size",
        "timestamp_ms",
        "values",
    )

    def __init__(self, topic: str, route: Route) -> None:
        self.route = route
        self.outcome = SendOutcome(topic)
        self.values: list[bytes | None] = []
        self.keys: list[bytes | None] | None = None
        self._headers: dict[int, Mapping[str, bytes]] = {}
        """By row. Few messages may have some, such as those that are traced: the others are appended as quickly."""
        self._timestamps: list[int | None] | None = None
        self._expiries: list[int | None] | None = None
        self._due: list[int | None] | None = None
        self._ids: list[bytes | None] | None = None
        self.opened_at = 0.0
        self.timestamp_ms = 0
        self.size = 0
        self._measured = 0
        self._sealed_count = -1
        self.plain_until = 0
        self.keyed_until = 0

    def add(self, message: Outgoing, size: int) -> int:
        """Appends a message and returns its index."""
        self.measure()
        index = len(self.values)
        self.keys = _extended(self.keys, message.key, index)
        if message.headers:
            self._headers[index] = message.headers
        self._timestamps = _extended(self._timestamps, message.timestamp_ms, index)
        self._expiries = _extended(self._expiries, message.expires_at_ms, index)
        self._due = _extended(self._due, message.deliver_at_ms, index)
        self._ids = _extended(self._ids, message.id, index)
        self.values.append(message.value)
        self.size += size
        self._measured = index + 1
        return index

    def open_window(self, max_bytes: int, max_count: int) -> None:
        """Lets the producer append the next small messages itself."""
        count = len(self.values)
        average = max(1, self.size // max(1, count))
        step = min(_STEP, (max_bytes - self.size) // average, max_count - count)
        until = count + max(0, step)
        rare = (self._timestamps, self._expiries, self._due, self._ids)
        is_simple = all(column is None for column in rare)
        self.plain_until = until if is_simple and self.keys is None else 0
        self.keyed_until = until if is_simple and self.keys is not None else 0

    def close_window(self) -> None:
        self.plain_until = self.keyed_until = 0

    @property
    def is_sealed(self) -> bool:
        return self._sealed_count >= 0

    @property
    def is_hashed(self) -> bool:
        """Whether messages go to the partitions of their keys or ids."""
        return self.route.partition is None and not (self.keys is None and self._ids is None)

    @property
    def count(self) -> int:
        """The messages of a sealed chunk."""
        return self._sealed_count

    def seal(self) -> None:
        """Fixes which messages are in."""
        self.close_window()
        self.measure()
        self._sealed_count = len(self.values)

    def keeps(self, row: int) -> bool:
        """Whether a message that was appended while the limits changed is in the chunk; if not, it must be added
        again."""
        if not self.is_sealed:
            del self.values[row:]
            if self.keys is not None:
                del self.keys[row:]
        return row < self._sealed_count

    def measure(self) -> int:
        """The bytes of all messages in the chunk."""
        since, count = self._measured, len(self.values)
        if since < count:
            self.size += sum(map(len, self.values[since:count]))  # type: ignore[arg-type]
            if self.keys is not None:
                self.size += sum(map(len, self.keys[since:count]))  # type: ignore[arg-type]
            self._measured = count
        return self.size

    def rows(self) -> Rows:
        """The messages as columns; the chunk is empty afterwards."""
        count = self._sealed_count
        # A copy, made in one step: the chunk's thread may append at any moment a message that is not part of the
        # chunk.
        rows = Rows.from_lists(
            self.values[:count],
            timestamp_ms=self.timestamp_ms,
            keys=None if self.keys is None else self.keys[:count],
            headers=self._headers or None,
            timestamps_ms=self._timestamps,
            expires_at_ms=self._expiries,
            deliver_at_ms=self._due,
            ids=self._ids,
        )
        self.values = []
        self.keys = self._timestamps = self._expiries = self._due = self._ids = None
        self._headers = {}
        return rows


SEALED_CHUNK = Chunk("", PLAIN_ROUTE)
SEALED_CHUNK.seal()


class BulkRows:
    """Rows that came as a whole, used like a chunk."""

    __slots__ = ("_rows", "count", "is_hashed", "outcome", "route", "size")

    def __init__(self, rows: Rows, route: Route, outcome: SendOutcome, size: int) -> None:
        self._rows = rows
        self.route = route
        self.is_hashed = route.partition is None and rows.has_hashes
        self.outcome = outcome
        self.size = size
        self.count = len(rows)
        outcome.count += len(rows)

    def rows(self) -> Rows:
        return self._rows


PendingRows = Chunk | BulkRows


def _extended(column: list[_Item | None] | None, item: _Item | None, index: int) -> list[_Item | None] | None:
    """A column that is only created with its first item that is not None."""
    if column is None:
        if item is None:
            return None
        column = [None] * index
    column.append(item)
    return column
