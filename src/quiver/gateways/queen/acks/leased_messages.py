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

HELD_MESSAGES = 250_000
SETTLED_MESSAGES = 25_000
"""Acknowledgements that are sent again come soon after the first ones."""
_BATCH_MESSAGES = 3
"""What a batch costs in memory besides its messages: as much as so many of them."""
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

    @property
    def place(self) -> tuple[int, int, bytes | None]:
        return self.partition, self.lease_id, self.key

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


class _Newest:
    """The newest batches, up to about a number of messages; the last one is kept however large it is."""

    def __init__(self, most: int) -> None:
        self.batches: OrderedDict[tuple[int, int, bytes | None], LeasedBatch] = OrderedDict()
        self._most = most
        self._count = 0

    def add(self, batch: LeasedBatch) -> None:
        self.remove(batch.place)
        self.batches[batch.place] = batch
        self._count += len(batch.offsets) + _BATCH_MESSAGES
        while self._count > self._most and len(self.batches) > 1:
            self.remove(next(iter(self.batches)))

    def remove(self, place: tuple[int, int, bytes | None]) -> None:
        batch = self.batches.pop(place, None)
        if batch is not None:
            self._count -= len(batch.offsets) + _BATCH_MESSAGES


class LeasedMessages:
    """The newest batches: many of those that are held, and some of those of which everything is settled."""

    def __init__(self, broker: "Facade", held: int = HELD_MESSAGES, settled: int = SETTLED_MESSAGES) -> None:
        self._broker = broker
        self._held, self._settled = _Newest(held), _Newest(settled)

    @property
    def count(self) -> int:
        return len(self._held.batches) + len(self._settled.batches)

    def add(self, batches: Iterable[LeasedBatch]) -> None:
        for batch in batches:
            self._held.add(batch)

    def released(self, batch: LeasedBatch) -> None:
        """The lease holds nothing more of it."""
        if batch.place in self._held.batches:
            self._held.remove(batch.place)
            self._settled.add(batch)

    def get(self, partition: int, lease_id: int, key: bytes | None) -> LeasedBatch | None:
        """Only if it is remembered."""
        place = (partition, lease_id, key)
        found = self._held.batches.get(place)
        return self._settled.batches.get(place) if found is None else found

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
