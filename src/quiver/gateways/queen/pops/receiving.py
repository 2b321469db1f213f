"""What a pop may get: from which queues, where its group begins, and not before its time."""

import asyncio
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import msgspec

from quiver.gateways.queen.maintenance.modes import Modes
from quiver.gateways.queen.options import options_of
from quiver.gateways.queen.pops.subscriptions import Subscription, Subscriptions
from quiver.gateways.queen.pops.windows import WindowGate, has_window
from quiver.model.limits import TOPICS_AT_ONCE
from quiver.model.position import EARLIEST, Position
from quiver.model.queue import ReceiveRequest
from quiver.model.topic import Topic

if TYPE_CHECKING:
    from quiver.queues.service import Received
    from quiver.routing.facade import Facade

_LOOK_SECONDS = 0.1
"""How often a pop that waits for a queue that does not exist looks for it."""
_SLICE_MS = 5_000
"""How long a pop waits that may get messages from queues that do not exist yet, before it looks for them."""

Find = Callable[[], Sequence[Topic]]


class Pops:
    def __init__(self, broker: "Facade", subscriptions: Subscriptions, modes: Modes) -> None:
        self._broker = broker
        self._modes = modes
        self._subscriptions = subscriptions
        self._windows = WindowGate(broker)

    async def receive(self, find: Find, wanted: Subscription, asked: ReceiveRequest) -> "list[Received]":
        """Waits for queues too: one may be created while somebody waits for its messages."""
        until = self._broker.clock.monotonic() + asked.wait_ms / 1000
        while True:
            left_ms = max(0, round((until - self._broker.clock.monotonic()) * 1000))
            if not self._modes.is_known:
                await self._modes.look()
            topics = [] if self._modes.is_pop_stopped else find()[:TOPICS_AT_ONCE]
            if topics:
                received = await self._received(topics, wanted, asked, min(asked.wait_ms, left_ms, _SLICE_MS))
                if received:
                    return received
            left = until - self._broker.clock.monotonic()
            if left <= 0:
                return []
            if not topics:
                await asyncio.sleep(min(left, _LOOK_SECONDS))

    async def _received(
        self, topics: Sequence[Topic], wanted: Subscription, asked: ReceiveRequest, wait_ms: int
    ) -> "list[Received]":
        starts = await self._starts(topics, wanted, asked.group)
        is_held = any(has_window(topic) for topic in topics)
        received: list[Received] = await self._by_priority(topics, asked) if not starts else []
        if len(set(starts.values())) > 1:  # each begins where it is to begin
            for topic_id, start in starts.items():
                one = msgspec.structs.replace(asked, topic_ids=[topic_id], start=start, wait_ms=0)
                received = received or await self._broker.queues.receive(one)
        if not received:
            start, ids = next(iter(starts.values()), EARLIEST), [topic.id for topic in topics]
            received = await self._broker.queues.receive(
                msgspec.structs.replace(asked, topic_ids=ids, start=start, wait_ms=wait_ms)
            )
        return await self._windows.passed(received) if is_held else received

    async def _by_priority(self, topics: Sequence[Topic], asked: ReceiveRequest) -> "list[Received]":
        """Of several queues, those with the highest priority that have something now."""
        classes: dict[int, list[int]] = {}
        for topic in topics:
            classes.setdefault(options_of(topic).priority, []).append(topic.id)
        for priority in sorted(classes, reverse=True) if len(classes) > 1 else ():
            one = msgspec.structs.replace(asked, topic_ids=classes[priority], wait_ms=0)
            if received := await self._broker.queues.receive(one):
                return received
        return []

    async def _starts(self, topics: Sequence[Topic], wanted: Subscription, group: str) -> dict[int, Position]:
        """Of queues in which no pop of the group was seen."""
        return {
            topic.id: await self._subscriptions.begin(group, topic, wanted)
            for topic in topics
            if not self._subscriptions.has_begun(group, topic)
        }
