"""Messages as readers get them."""

from collections.abc import Callable, Iterable
from itertools import compress, repeat
from typing import Any, TypeVar, overload

import msgspec

from quiver.client.json_value import decode_json
from quiver.client.read.cursor import ReadFrame
from quiver.model.errors import InvalidRequest
from quiver.model.priority import Priority
from quiver.records.header import COLUMN_HEADERS, COLUMN_TIMESTAMP
from quiver.records.read import OpenFrame

_T = TypeVar("_T")
_LEVELS = tuple(level.name.lower() for level in Priority)


class MessageSource:
    """What the messages of one frame share; keeps its bytes only while headers may be needed."""

    __slots__ = ("_headers", "_offsets", "_read_headers", "_timestamps", "append_time_ms", "commit", "partition",
                 "priority", "timestamp_ms", "topic")  # fmt: skip

    def __init__(self, frame: OpenFrame, topic: str, partition: int) -> None:
        header = frame.header
        self.topic = topic
        self.partition = partition
        self.priority = _LEVELS[header.priority]
        self.append_time_ms = header.append_time_ms
        self.commit: Callable[[Message], Any] | None = None
        """Commits a message that was read as a member of a group."""
        self.timestamp_ms = header.min_timestamp_ms
        self._offsets = frame.offsets()
        self._timestamps = frame.timestamps() if header.columns & COLUMN_TIMESTAMP else None
        self._headers: list[dict[str, bytes]] | None = None
        self._read_headers: Callable[[], list[dict[str, bytes]]] | None = (
            frame.headers if header.columns & COLUMN_HEADERS else None
        )

    def timestamp_of(self, offset: int) -> int:
        return self.timestamp_ms if self._timestamps is None else self._timestamps[self._offsets.index(offset)]

    def headers_of(self, offset: int) -> dict[str, bytes]:
        if self._read_headers is not None:
            self._headers = self._read_headers()
            self._read_headers = None
        return {} if self._headers is None else self._headers[self._offsets.index(offset)]


class Message(msgspec.Struct, gc=False, eq=False, repr_omit_defaults=True):
    """A message that was read. A value of None is a tombstone."""

    source: MessageSource
    offset: int
    key: bytes | None
    value: bytes | None

    @property
    def topic(self) -> str:
        return self.source.topic

    @property
    def partition(self) -> int:
        return self.source.partition

    @property
    def timestamp(self) -> int:
        """The message's own time, epoch milliseconds."""
        return self.source.timestamp_of(self.offset)

    @property
    def append_time(self) -> int:
        """When the broker stored it, epoch milliseconds."""
        return self.source.append_time_ms

    @property
    def headers(self) -> dict[str, bytes]:
        return self.source.headers_of(self.offset)

    @property
    def priority(self) -> str:
        return self.source.priority

    @overload
    def json(self) -> Any: ...
    @overload
    def json(self, type: type[_T]) -> _T: ...
    @overload
    def json(self, type: Any) -> Any: ...
    def json(self, type: Any = Any) -> Any:
        """The value decoded from JSON, as a `type` if that is given. Raises InvalidRequest if it does not fit.

        A type is a dataclass, a msgspec struct, a pydantic model, or anything made of them, such as `list[Order]`.
        """
        where = f"{self.topic}-{self.partition} offset {self.offset}"
        if self.value is None:
            raise InvalidRequest(problem=f"the message at {where} is a tombstone: it has no value to read as JSON")
        try:
            return decode_json(self.value, type)
        except ValueError as error:
            wanted = "JSON" if type is Any else f"a {getattr(type, '__name__', None) or type} in JSON"
            raise InvalidRequest(problem=f"the message at {where} is not {wanted}: {error}") from error

    def commit(self) -> Any:
        """Commits this message and all before it in its partition; to be awaited with the asynchronous client."""
        if self.source.commit is None:
            raise InvalidRequest(problem="only a message that was read with a group can be committed")
        return self.source.commit(self)

    def __repr__(self) -> str:
        place = f"topic={self.topic!r}, partition={self.partition}, offset={self.offset}"
        return f"Message({place}, key={self.key!r}, value={self.value!r})"


def messages_of(read: ReadFrame, topic: str) -> Iterable[Message]:
    """The wanted messages of a frame."""
    frame, start, stop = read.frame, read.start, read.stop
    offsets = frame.offsets()
    first, count = 0, len(offsets)
    if offsets[0] < start or offsets[-1] >= stop:
        first = next((place for place, offset in enumerate(offsets) if offset >= start), count)
        count = next((place for place, offset in enumerate(offsets) if offset >= stop), count)
    source = MessageSource(frame, topic, read.partition)
    messages = map(Message, repeat(source), offsets, frame.keys(), frame.values())
    if read.past is not None:
        return list(compress(messages, read.wanted.tolist()))
    if first == 0 and count == len(offsets):
        return messages
    return list(messages)[first:count]
