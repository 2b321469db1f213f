"""Events that consumers write about messages: messages of a topic, kept for a week."""

import contextlib
from typing import TYPE_CHECKING

import msgspec

from quiver.gateways.queen.stored_messages import Window, newest_messages
from quiver.model.errors import QuiverError, TopicExists, TopicNotFound
from quiver.model.limits import LISTED_AT_ONCE
from quiver.model.message import NewMessage, StoredMessage
from quiver.model.topic import Topic

if TYPE_CHECKING:
    from quiver.routing.facade import Facade

TRACES_TOPIC = "__queen_traces"
_SETTINGS = {"partitions": 1, "retention": "7d"}


class TraceEvent(msgspec.Struct, kw_only=True):
    id: str
    transaction_id: str
    partition_id: str
    event_type: str | None
    consumer_group: str | None
    names: list[str]
    data: msgspec.Raw
    time_ms: int = 0
    """When it was stored."""


_decode = msgspec.json.Decoder(TraceEvent).decode


class TraceLog:
    """The topic is created with the first event. The newest events are searched."""

    def __init__(self, broker: "Facade") -> None:
        self._broker = broker

    async def write(self, event: TraceEvent) -> None:
        if self._find() is None:
            with contextlib.suppress(TopicExists):
                await self._broker.create_topic(TRACES_TOPIC, _SETTINGS)
        key = _key(event.partition_id, event.transaction_id)
        [outcome] = await self._broker.publish(TRACES_TOPIC, [NewMessage(value=msgspec.json.encode(event), key=key)])
        if isinstance(outcome, QuiverError):
            raise outcome

    async def newest(self) -> list[TraceEvent]:
        return await self._read(Window())

    async def of_message(self, partition_id: str, transaction_id: str) -> list[TraceEvent]:
        return await self._read(Window(key=_key(partition_id, transaction_id)))

    async def _read(self, window: Window) -> list[TraceEvent]:
        topic = self._find()
        if topic is None:
            return []
        details = await self._broker.describe(topic.name)
        messages = await newest_messages(self._broker, topic, details, LISTED_AT_ONCE, window)
        return [event for message in messages if (event := _event(message)) is not None]

    def _find(self) -> Topic | None:
        try:
            return self._broker.topic(TRACES_TOPIC)
        except TopicNotFound:
            return None


def _key(partition_id: str, transaction_id: str) -> bytes:
    return f"{partition_id}/{transaction_id}".encode()


def _event(message: StoredMessage) -> TraceEvent | None:
    """None for what somebody else wrote."""
    try:
        event = _decode(message.value or b"")
    except (msgspec.DecodeError, msgspec.ValidationError):
        return None
    return msgspec.structs.replace(event, time_ms=message.append_time_ms)
