"""Which message of a lease has which transactionId: remembered since the pop, and read again if need be."""

from bisect import bisect_left
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from quiver.gateways.queen.messages import transaction_id
from quiver.messages.browse import BrowseRequest
from quiver.model.limits import MESSAGES_AT_ONCE
from quiver.model.topic import Topic
from quiver.structures.interval_set import IntervalSet
from quiver.structures.offset_ranges import joined

if TYPE_CHECKING:
    from quiver.queues.leases import HeldKey
    from quiver.routing.facade import Facade

_REMEMBERED_MESSAGES = 250_000
_NEAR = 1_000
"""Messages of other keys that are read through rather than skipped."""


class LeasedBatch:
    """What a lease has of one key in one partition of the broker."""

    __slots__ = ("_by_transaction", "key", "lease_id", "offsets", "partition")

    def __init__(self, partition: int, lease_id: int, key: bytes | None) -> None:
        self.partition = partition
        self.lease_id = lease_id
        self.key = key
        self.offsets: list[int] = []
        """In order; also of those that were settled since."""
        self._by_transaction: dict[str, int] = {}

    def add(self, transaction: str, offset: int) -> None:
        self.offsets.append(offset)
        self._by_transaction[transaction] = offset

    def extend(self, transactions: Sequence[str], offsets: Sequence[int]) -> None:
        self.offsets.extend(offsets)
        self._by_transaction.update(zip(transactions, offsets, strict=True))

    def last_of(self, transactions: Sequence[str]) -> tuple[str, int] | None:
        """The one with the highest offset; None if one of them is not in it."""
        found = list(map(self._by_transaction.get, transactions))
        known = [offset for offset in found if offset is not None]
        if len(known) < len(found):
            return None
        highest = max(known)
        return transactions[found.index(highest)], highest

    def offset_of(self, transaction: str) -> int | None:
        return self._by_transaction.get(transaction)

    def since(self, offset: int) -> Sequence[int]:
        return self.offsets[bisect_left(self.offsets, offset) :]


class LeasedMessages:
    """The newest batches, up to a number of messages."""

    def __init__(self, broker: "Facade") -> None:
        self._broker = broker
        self._batches: OrderedDict[tuple[int, int, bytes | None], LeasedBatch] = OrderedDict()
        self._count = 0

    def add(self, batches: Iterable[LeasedBatch]) -> None:
        for batch in batches:
            place = (batch.partition, batch.lease_id, batch.key)
            old = self._batches.pop(place, None)
            self._count += len(batch.offsets) - (0 if old is None else len(old.offsets))
            self._batches[place] = batch
        while self._count > _REMEMBERED_MESSAGES and len(self._batches) > 1:
            _, oldest = self._batches.popitem(last=False)
            self._count -= len(oldest.offsets)

    def get(self, partition: int, lease_id: int, key: bytes | None) -> LeasedBatch | None:
        """Only if it is remembered."""
        return self._batches.get((partition, lease_id, key))

    async def of(self, topic: Topic, group_id: int, key: bytes, held: "HeldKey") -> LeasedBatch:
        """What a consumer holds of a key."""
        known = self.get(held.partition, held.lease_id, key)
        return known or await self._read(topic, group_id, key, held)

    async def _read(self, topic: Topic, group_id: int, key: bytes, held: "HeldKey") -> LeasedBatch:
        batch = LeasedBatch(held.partition, held.lease_id, key)
        for now in await self._broker.queue_leases.of_key(topic.id, group_id, key, with_runs=True):
            if (now.partition, now.lease_id) == (held.partition, held.lease_id):
                wanted = IntervalSet(now.runs)
                for start, end in joined(now.runs, gap=_NEAR):
                    await self._read_run(topic, batch, wanted, (start, end))
        self.add([batch])
        return batch

    async def _read_run(self, topic: Topic, batch: LeasedBatch, wanted: IntervalSet, run: tuple[int, int]) -> None:
        at, end = run
        while at < end:
            asked = BrowseRequest(offset=at, limit=min(end - at, MESSAGES_AT_ONCE), include_expired=True)
            page = await self._broker.read_messages(topic.name, batch.partition, asked)
            for message in page.messages:
                if message.key == batch.key and message.offset in wanted:
                    known_by = transaction_id(message.headers, topic.id, batch.partition, message.offset)
                    batch.add(known_by, message.offset)
            if not page.messages or page.next_offset <= at:
                return
            at = page.next_offset
