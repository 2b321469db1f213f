"""Moves a group in one partition of a queue: what comes before is settled, what comes after is available again."""

from typing import TYPE_CHECKING

from quiver.messages.browse import BrowseRequest
from quiver.model.errors import GroupNotEmpty
from quiver.model.limits import MESSAGES_AT_ONCE, PAGE_BYTES
from quiver.model.position import Position
from quiver.model.queue import ReceiveRequest
from quiver.model.settlement import ACK, SettleRequest
from quiver.model.topic import Topic
from quiver.queues.state.keyed.reopening import LeveledRun
from quiver.records.read import open_frame
from quiver.structures.murmur2 import partition_for

if TYPE_CHECKING:
    from quiver.queues.service import Received
    from quiver.routing.facade import Facade

_CONSUMER = "queen-seek"


class PartitionSeek:
    def __init__(self, broker: "Facade") -> None:
        self._broker = broker

    async def move(self, topic: Topic, group: str, key: bytes, to: Position) -> None:
        """GroupNotEmpty while a consumer holds messages of the partition."""
        found = self._broker.groups.groups().get(group)
        number = partition_for(key, topic.config.partitions)
        end = await self._broker.find_offset(topic.id, number, to)
        if found is not None and await self._broker.queue_leases.of_key(topic.id, found.id, key):
            raise GroupNotEmpty(
                "messages of the partition are leased; try again when they are acknowledged", group=group, members=1
            )
        await self._forward(topic, group, key, number, end)
        runs = await self._stored(topic, number, key, end)
        if runs and found is not None:
            await self._broker.queues.reopen(topic, number, group, key, runs)

    async def _forward(self, topic: Topic, group: str, key: bytes, number: int, end: int) -> None:
        while received := await self._receive(topic, group, key):
            try:
                is_at_end = await self._settle(topic, received, number, end)
            finally:
                await self._broker.queues.give_back(received)
            if is_at_end:
                return

    async def _stored(self, topic: Topic, number: int, key: bytes, start: int) -> list[LeveledRun]:
        """All messages of the key from an offset on."""
        found: list[LeveledRun] = []
        at = start
        while True:
            page = await self._broker.read_messages(
                topic.name, number, BrowseRequest(offset=at, limit=MESSAGES_AT_ONCE, include_expired=True)
            )
            for message in page.messages:
                if message.key == key:
                    _add(found, message.offset, message.priority)
            if page.next_offset <= at:
                return found
            at = page.next_offset

    async def _receive(self, topic: Topic, group: str, key: bytes) -> "list[Received]":
        return await self._broker.queues.receive(
            ReceiveRequest(
                topic_ids=[topic.id],
                group=group,
                consumer=_CONSUMER,
                max_messages=MESSAGES_AT_ONCE,
                max_bytes=PAGE_BYTES,
                ordering="key",
                key=key,
            )
        )

    async def _settle(self, topic: Topic, received: "list[Received]", number: int, end: int) -> bool:
        """Whether the end is reached."""
        for one in received:
            run = one.run
            offsets = [
                offset for offset in open_frame(run.frame).offsets() if run.partition != number or offset < end
            ]
            if offsets:
                runs = [(offsets[0], offsets[-1] + 1)]
                await self._broker.queues.settle(
                    [SettleRequest(topic.id, run.partition, run.group_id, run.lease_id, ACK, runs)]
                )
            if not offsets or offsets[-1] + 1 < run.end:
                return True
        return False


def _add(runs: list[LeveledRun], offset: int, level: int) -> None:
    last = runs[-1] if runs else None
    if last is not None and last.end == offset and last.level == level:
        runs[-1] = LeveledRun(last.start, offset + 1, level)
    else:
        runs.append(LeveledRun(offset, offset + 1, level))
