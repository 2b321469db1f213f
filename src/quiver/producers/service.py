"""Ids and epochs of producers: none is given out twice, also across restarts.

Ids come in blocks from coordination. Epochs of producers without transactions are in a journal of the process that
gives them out; those with transactions are in the journal of transactions.
"""

import asyncio

from quiver.coordination.counter import Counter
from quiver.coordination.view import View
from quiver.producers.events import CODEC, EpochGiven
from quiver.producers.state import EpochTable
from quiver.storage.journaled_state import JournaledState
from quiver.storage.port import Storage
from quiver.system.clock import Clock

LOG_ID = "internal/producers"
IDS_KEY = "counters/producer-id"
_BLOCK = 1000
_LAST_EPOCH = 2**31 - 1


class ProducerIds:
    def __init__(self, view: View, *, clock: Clock) -> None:
        self._ids = Counter(view, IDS_KEY, block=_BLOCK)
        self._table = EpochTable()
        self._journaled = JournaledState(LOG_ID, self._table, CODEC, clock=clock)
        self._change = asyncio.Lock()

    async def open(self, storage: Storage, epoch: int) -> None:
        """CorruptData stops the start: frames of a producer whose epoch is unknown would be refused or doubled."""
        await self._journaled.open(storage, epoch)

    async def close(self) -> None:
        await self._journaled.close()

    async def new(self) -> int:
        """An id that was never given out before."""
        return await self._ids.take()

    def was_given(self, producer_id: int, epoch: int) -> bool:
        """Whether a producer without transactions may use an epoch."""
        is_known = producer_id >= 0 and self._ids.may_be_given(producer_id)
        return is_known and 0 <= epoch <= self._table.epochs.get(producer_id, 0)

    async def next_epoch(self, producer_id: int, epoch: int) -> tuple[int, int]:
        """The next epoch of a producer; a new id if its epoch was never given out, or is forgotten."""
        async with self._change:
            if self.was_given(producer_id, epoch) and epoch < _LAST_EPOCH:
                if not self.was_given(producer_id, epoch + 1):
                    await self._journaled.append(EpochGiven(producer_id, epoch + 1))
                return producer_id, epoch + 1
        return await self.new(), 0

    async def snapshot_if_due(self) -> None:
        await self._journaled.snapshot_if_due()
