"""Pushes that wait while push maintenance is on: messages of a topic, moved to their queues in order afterwards."""

import asyncio
import contextlib
import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING

import msgspec

from quiver.gateways.queen.identifiers import random_id
from quiver.gateways.queen.incoming import PushItem, for_queue
from quiver.gateways.queen.maintenance.modes import Modes
from quiver.gateways.queen.messages import TRANSACTION_HEADER
from quiver.gateways.queen.queues import QueenQueues
from quiver.gateways.queen.transactions.committer import Committer
from quiver.gateways.queen.transactions.frames import Push
from quiver.messages.publish import Published
from quiver.model.errors import GroupNotFound, QuiverError, TopicExists, TopicNotFound
from quiver.model.limits import PAGE_BYTES
from quiver.model.message import NewMessage
from quiver.model.queue import ReceiveRequest
from quiver.model.transaction import LeasedAcks
from quiver.records.read import open_frame

if TYPE_CHECKING:
    from quiver.queues.service import Received
    from quiver.routing.facade import Facade

logger = logging.getLogger(__name__)

BUFFER_TOPIC = "__queen_buffer"
_GROUP = "__queen_buffer"
_QUEUE_HEADER, _ID_HEADER = "queen-buffered-queue", "queen-buffered-id"
_MOVED_AT_ONCE = 1_000
_PAUSE_SECONDS = 1.0
_ADDING_SECONDS = 0.01
"""How often it is looked whether pushes that are being buffered are stored."""


class PushBuffer:
    def __init__(self, broker: "Facade", queues: QueenQueues, modes: Modes, committer: Committer) -> None:
        self._broker = broker
        self._queues = queues
        self._modes = modes
        self._committer = committer
        self._adding = 0
        self._draining: asyncio.Task[None] | None = None
        modes.on_draining = self.drain

    @property
    def is_used(self) -> bool:
        """Whether pushes are buffered: also while those before them are moved, so that they stay in order."""
        return self._modes.push != "off" or self._draining is not None

    async def add(
        self, items: Sequence[PushItem], messages: Sequence[NewMessage]
    ) -> tuple[list[NewMessage], list[Published | QuiverError]]:
        """The messages with the transaction ids that they have from now on, and what became of them here."""
        self._adding += 1
        try:
            await self._ensure()
            named = [_named(message) for message in messages]
            stored = [_stored(item, message) for item, message in zip(items, named, strict=True)]
            return named, await self._broker.publish(BUFFER_TOPIC, stored)
        finally:
            self._adding -= 1

    async def count(self) -> int:
        """Messages that wait."""
        try:
            depth = await self._broker.queue_depths.of(BUFFER_TOPIC, _GROUP)
        except GroupNotFound:
            return (await self._broker.describe(BUFFER_TOPIC)).message_count
        except TopicNotFound:
            return 0
        return depth.ready + depth.leased + depth.retrying + depth.blocked

    def drain(self) -> None:
        """Moves everything to its queue, in the background."""
        if self._draining is None:
            self._draining = asyncio.get_running_loop().create_task(self._drain())

    async def _drain(self) -> None:
        """Pushes are buffered until the mode has ended, so those of this moment are moved after that."""
        try:
            await self._move_all()
            if self._modes.push == "draining":
                with contextlib.suppress(QuiverError):  # the next look begins again
                    await self._modes.set_push("off")
                await self._move_all()
        finally:
            self._draining = None

    async def _move_all(self) -> None:
        while True:
            try:
                moved = await self._move()
            except QuiverError as error:
                logger.warning("buffered pushes wait: %s", error)
                await asyncio.sleep(_PAUSE_SECONDS)
                continue
            if not moved and not self._adding:
                return
            if not moved:
                await asyncio.sleep(_ADDING_SECONDS)

    async def _move(self) -> int:
        try:
            topic = self._broker.topic(BUFFER_TOPIC)
        except TopicNotFound:
            return 0
        received = await self._broker.queues.receive(
            ReceiveRequest(
                topic_ids=[topic.id],
                group=_GROUP,
                consumer=_GROUP,
                max_messages=_MOVED_AT_ONCE,
                max_bytes=PAGE_BYTES,
                ordering="key",
            )
        )
        try:
            pushes = [await self._push(message) for one in received for message in _messages(one)]
            acks = [
                LeasedAcks(
                    topic.id, one.run.partition, one.run.group_id, one.run.lease_id, [(one.run.start, one.run.end)]
                )
                for one in received
            ]
            await self._committer.commit(pushes, acks)
        except BaseException:
            self._broker.queues.give_back_later(received)
            raise
        return len(pushes)

    async def _push(self, buffered: NewMessage) -> Push:
        headers = dict(buffered.headers or {})
        topic = await self._queues.ensure(headers.pop(_QUEUE_HEADER, b"").decode())
        id = headers.pop(_ID_HEADER, None)
        key = (buffered.key or b"").partition(b"\0")[2]
        message = msgspec.structs.replace(buffered, headers=headers, key=key, id=id)
        return Push(topic, for_queue(message, topic, self._broker.clock.now_ms()))

    async def _ensure(self) -> None:
        try:
            self._broker.topic(BUFFER_TOPIC)
        except TopicNotFound:
            with contextlib.suppress(TopicExists):
                settings = {"retention": None, "max_message_bytes": self._broker.limits.frame_bytes // 2}
                await self._broker.create_topic(BUFFER_TOPIC, settings)


def _named(message: NewMessage) -> NewMessage:
    headers = dict(message.headers or {})
    headers.setdefault(TRANSACTION_HEADER, random_id().encode())
    return msgspec.structs.replace(message, headers=headers)


def _stored(item: PushItem, message: NewMessage) -> NewMessage:
    """Ordered by queue and partition. Duplicates are recognised when it is moved."""
    headers = {**(message.headers or {}), _QUEUE_HEADER: item.queue.encode()}
    if message.id is not None:
        headers[_ID_HEADER] = message.id
    key = item.queue.encode() + b"\0" + (message.key or b"")
    return msgspec.structs.replace(message, headers=headers, key=key, id=None)


def _messages(one: "Received") -> list[NewMessage]:
    frame = open_frame(one.run.frame)
    rows = zip(frame.keys(), frame.values(), frame.headers(), strict=True)
    return [NewMessage(value=value, key=key, headers=headers) for key, value, headers in rows]
