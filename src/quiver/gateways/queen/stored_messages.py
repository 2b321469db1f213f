"""Finds messages in the log: the newest, those of a partition, and one by its transactionId."""

from typing import TYPE_CHECKING, NamedTuple

from quiver.gateways.queen.identifiers import parse_message_id
from quiver.gateways.queen.messages import dedup_id, transaction_id
from quiver.messages.browse import BrowseRequest
from quiver.model.limits import MESSAGES_AT_ONCE
from quiver.model.message import StoredMessage
from quiver.model.topic import Topic
from quiver.structures.murmur2 import partition_for

if TYPE_CHECKING:
    from quiver.routing.facade import Facade
    from quiver.topics.details import TopicDetails

_SEARCHED = 10_000
"""Newest messages in a partition of the broker in which a message of a queue's partition is looked for."""


class Window(NamedTuple):
    from_ms: int | None = None
    to_ms: int | None = None
    key: bytes | None = None
    """Only messages of one partition."""

    def has(self, message: StoredMessage) -> bool:
        if self.to_ms is not None and message.append_time_ms > self.to_ms:
            return False
        return self.key is None or message.key == self.key


_ANY = Window()


async def newest_messages(
    broker: "Facade", topic: Topic, details: "TopicDetails", limit: int, window: Window = _ANY
) -> list[StoredMessage]:
    """At most this many, the newest first."""
    found: list[StoredMessage] = []
    wanted = None if window.key is None else partition_for(window.key, topic.config.partitions)
    for part in details.partitions:
        if wanted is None or part.partition == wanted:
            count = limit if window.key is None else _SEARCHED
            start = max(part.start_offset, part.end_offset - count)
            found += await _read(broker, topic, part.partition, (start, part.end_offset), window)
    found.sort(key=lambda message: (message.append_time_ms, message.partition, message.offset), reverse=True)
    return found[:limit]


async def _read(
    broker: "Facade", topic: Topic, partition: int, run: tuple[int, int], window: Window
) -> list[StoredMessage]:
    at, end = run
    found: list[StoredMessage] = []
    while at < end:
        asked = BrowseRequest(offset=at, limit=min(end - at, MESSAGES_AT_ONCE), from_time_ms=window.from_ms)
        page = await broker.read_messages(topic.name, partition, asked)
        found += [message for message in page.messages if message.offset < end and window.has(message)]
        if page.next_offset <= at:
            break
        at = page.next_offset
    return found


async def find_message(broker: "Facade", topic: Topic, key: bytes | None, transaction: str) -> tuple[int, int] | None:
    """Partition and offset: by the message's id, or in the transactionId itself."""
    if key is not None:
        partition = partition_for(key, topic.config.partitions)
        offset = await broker.find_id(topic.id, partition, dedup_id(key, transaction))
        if offset is not None:
            return partition, offset
    named = parse_message_id(transaction)
    return None if named is None or named.topic_id != topic.id else (named.partition, named.offset)


async def search_message(broker: "Facade", topic: Topic, key: bytes, transaction: str) -> StoredMessage | None:
    """The message itself, also when its id is forgotten, if it is among the newest."""
    place = await find_message(broker, topic, key, transaction)
    if place is not None:
        asked = BrowseRequest(offset=place[1], limit=1, include_expired=True)
        page = await broker.read_messages(topic.name, place[0], asked) if place[0] < topic.config.partitions else None
        return next((each for each in page.messages if each.offset == place[1]), None) if page else None
    details = await broker.describe(topic.name)
    for message in await newest_messages(broker, topic, details, _SEARCHED, Window(key=key)):
        if transaction_id(message.headers, topic.id, message.partition, message.offset) == transaction:
            return message
    return None
