"""Where a group begins in a queue: decided at its first contact, and remembered."""

import msgspec

from quiver.gateways.queen.records import QueenRecords
from quiver.model.position import EARLIEST, LATEST, Position
from quiver.model.times import format_time
from quiver.model.topic import Topic

_PREFIX = "group/"
_ANY_QUEUE = "*"
_REMEMBERED = 100_000


class Subscription(msgspec.Struct, frozen=True, kw_only=True):
    mode: str
    """all, new, or timestamp."""
    from_ms: int | None = None
    """None: from the first message on."""

    @property
    def start(self) -> Position:
        return EARLIEST if self.from_ms is None else Position("time", self.from_ms)

    @property
    def shown_time(self) -> str | None:
        return None if self.from_ms is None else format_time(self.from_ms)


class Subscriptions:
    """Of groups in queues; one for all queues of a group where an operator has given it."""

    def __init__(self, records: QueenRecords) -> None:
        self._records = records
        self._begun: dict[tuple[str, int], None] = {}

    def has_begun(self, group: str, topic: Topic) -> bool:
        """Whether a pop of the group was seen here, so that its start is known."""
        return (group, topic.id) in self._begun

    async def begin(self, group: str, topic: Topic, wanted: Subscription) -> Position:
        """Where the group begins if it has not begun in the queue yet."""
        known = await self.of(group, topic)
        if known is None and wanted != Subscription(mode="all"):
            await self._records.put({_key(group, str(topic.id)): msgspec.json.encode(wanted)})
            known = wanted
        if len(self._begun) >= _REMEMBERED:
            self._begun.clear()
        self._begun[group, topic.id] = None
        if known is not None and known.mode == "new" and known is wanted:
            return LATEST  # what is pushed meanwhile is new
        return EARLIEST if known is None else known.start

    async def of(self, group: str, topic: Topic) -> Subscription | None:
        await self._records.refresh()
        for name in (str(topic.id), _ANY_QUEUE):
            row = self._records.known(_key(group, name))
            if row is not None:
                return msgspec.json.decode(row, type=Subscription)
        return None

    async def set(self, group: str, subscription: Subscription) -> None:
        """For every queue that the group has not begun in."""
        await self._records.put({_key(group, _ANY_QUEUE): msgspec.json.encode(subscription)})

    async def forget(self, group: str, topic: Topic | None = None) -> None:
        """In one queue, or in all."""
        for pair in [pair for pair in self._begun if pair[0] == group]:
            if topic is None or topic.id == pair[1]:
                del self._begun[pair]
        prefix = _key(group, "")
        names = await self._records.below(prefix)
        gone = names if topic is None else names.keys() & {str(topic.id)}
        await self._records.put(dict.fromkeys(prefix + name for name in gone))


def _key(group: str, queue: str) -> str:
    return f"{_PREFIX}{group}/{queue}"
