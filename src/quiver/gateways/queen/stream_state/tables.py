"""The rows of stream processors: messages of a compacted topic, read into memory up to its end."""

import asyncio
import contextlib
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from quiver.gateways.queen.transactions.frames import Push
from quiver.messages.browse import BrowseRequest
from quiver.model.errors import TopicExists, TopicNotFound
from quiver.model.limits import MESSAGES_AT_ONCE
from quiver.model.message import NewMessage, StoredMessage
from quiver.model.topic import Topic
from quiver.structures.murmur2 import partition_for

if TYPE_CHECKING:
    from quiver.routing.facade import Facade

STATE_TOPIC = "__queen_state"
_PARTITIONS = 8
_SETTINGS = {"partitions": _PARTITIONS, "cleanup": "compact", "retention": None, "dedup_window": 0}


class StatePlace(NamedTuple):
    query_id: str
    partition_id: str

    @property
    def number(self) -> int:
        """All rows of a place are in one partition of the topic."""
        return partition_for(f"{self.query_id}/{self.partition_id}".encode(), _PARTITIONS)


class StateRow(NamedTuple):
    value: bytes
    updated_ms: int


_Key = tuple[str, str, str]
_pack = msgspec.msgpack.Encoder().encode
_unpack = msgspec.msgpack.Decoder(_Key).decode


class StateTables:
    """By partition of the topic. The topic is created with the first row."""

    def __init__(self, broker: "Facade") -> None:
        self._broker = broker
        self._tables: dict[int, _Table] = {}
        self._topic_id = 0

    async def rows(self, place: StatePlace) -> dict[str, StateRow]:
        table = await self._read(place.number)
        return {} if table is None else table.rows.get(place, {})

    async def places(self, query_id: str) -> list[StatePlace]:
        """Where a query has rows."""
        found: list[StatePlace] = []
        for number in range(_PARTITIONS):
            table = await self._read(number)
            if table is not None:
                found += [place for place in table.rows if place.query_id == query_id]
        return found

    async def push(self, place: StatePlace, key: str, value: bytes | None) -> Push:
        """A change of a row, for a transaction; None removes it."""
        topic = self._find() or await self._create()
        packed = _pack((place.query_id, place.partition_id, key))
        return Push(topic, NewMessage(value=value, key=packed, partition=place.number))

    async def _read(self, number: int) -> "_Table | None":
        topic = self._find()
        if topic is None:
            return None
        if topic.id != self._topic_id:
            self._topic_id, self._tables = topic.id, {}
        table = self._tables.setdefault(number, _Table(number))
        await table.read(self._broker)
        return table

    def _find(self) -> Topic | None:
        try:
            return self._broker.topic(STATE_TOPIC)
        except TopicNotFound:
            return None

    async def _create(self) -> Topic:
        with contextlib.suppress(TopicExists):
            return await self._broker.create_topic(STATE_TOPIC, _SETTINGS)
        return self._broker.topic(STATE_TOPIC)


class _Table:
    def __init__(self, number: int) -> None:
        self.rows: dict[StatePlace, dict[str, StateRow]] = {}
        self._number = number
        self._next_offset = 0
        self._reading = asyncio.Lock()

    async def read(self, broker: "Facade") -> None:
        """Everything that is committed now."""
        async with self._reading:
            while True:
                asked = BrowseRequest(offset=self._next_offset, limit=MESSAGES_AT_ONCE, include_expired=True)
                page = await broker.read_messages(STATE_TOPIC, self._number, asked)
                for message in page.messages:
                    self._apply(message)
                if page.next_offset <= self._next_offset:
                    return
                self._next_offset = page.next_offset

    def _apply(self, message: StoredMessage) -> None:
        try:
            query_id, partition_id, key = _unpack(message.key or b"")
        except (msgspec.DecodeError, msgspec.ValidationError):
            return  # somebody else wrote it
        place = StatePlace(query_id, partition_id)
        if message.value is not None:
            self.rows.setdefault(place, {})[key] = StateRow(message.value, message.append_time_ms)
        elif place in self.rows:
            self.rows[place].pop(key, None)
            if not self.rows[place]:
                del self.rows[place]
