"""What the interface itself has to remember: a table in a compacted topic of the broker.

Every process reads what others have written before it looks something up, so it works wherever a request arrives.
"""

import asyncio
import contextlib
from collections.abc import Mapping
from typing import TYPE_CHECKING

from quiver.messages.browse import BrowseRequest
from quiver.model.errors import QuiverError, TopicExists, TopicNotFound
from quiver.model.limits import MESSAGES_AT_ONCE
from quiver.model.message import NewMessage
from quiver.model.topic import Topic

if TYPE_CHECKING:
    from quiver.routing.facade import Facade

RECORDS_TOPIC = "__queen"
_SETTINGS = {"partitions": 1, "cleanup": "compact", "retention": None, "dedup_window": 0}


class QueenRecords:
    """By key. The topic is created with the first record; whoever only looks creates nothing."""

    def __init__(self, broker: "Facade") -> None:
        self._broker = broker
        self._rows: dict[str, bytes] = {}
        self._topic_id = 0
        self._next_offset = 0
        self._reading = asyncio.Lock()

    async def get(self, key: str) -> bytes | None:
        await self.refresh()
        return self._rows.get(key)

    def known(self, key: str) -> bytes | None:
        """As it was read last."""
        return self._rows.get(key)

    async def below(self, prefix: str) -> dict[str, bytes]:
        """Those whose keys begin with the prefix, without it."""
        await self.refresh()
        return {key[len(prefix) :]: value for key, value in self._rows.items() if key.startswith(prefix)}

    async def put(self, rows: Mapping[str, bytes | None]) -> None:
        """None removes a record. All are on disk when this returns."""
        if not rows:
            return
        await self._ensure()
        messages = [NewMessage(value=value, key=key.encode()) for key, value in rows.items()]
        for outcome in await self._broker.publish(RECORDS_TOPIC, messages):
            if isinstance(outcome, QuiverError):
                raise outcome
        await self.refresh()

    async def refresh(self) -> None:
        """Reads what was written since."""
        async with self._reading:
            topic = self._find()
            if topic is None:
                return
            if topic.id != self._topic_id:
                self._topic_id, self._next_offset, self._rows = topic.id, 0, {}
            while await self._read(topic):
                pass

    async def _read(self, topic: Topic) -> bool:
        """Whether there may be more."""
        asked = BrowseRequest(offset=self._next_offset, limit=MESSAGES_AT_ONCE, include_expired=True)
        page = await self._broker.read_messages(topic.name, 0, asked)
        for message in page.messages:
            key = (message.key or b"").decode(errors="replace")
            if message.value is None:
                self._rows.pop(key, None)
            else:
                self._rows[key] = message.value
        is_more = page.next_offset > self._next_offset
        self._next_offset = max(self._next_offset, page.next_offset)
        return is_more

    def _find(self) -> Topic | None:
        try:
            return self._broker.topic(RECORDS_TOPIC)
        except TopicNotFound:
            return None

    async def _ensure(self) -> None:
        if self._find() is None:
            with contextlib.suppress(TopicExists):
                await self._broker.create_topic(RECORDS_TOPIC, _SETTINGS)
