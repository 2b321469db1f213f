"""Ids and epochs of producers: none is given out twice, also across restarts."""

import asyncio

from quiver.storage.journaled_state import JournaledState
from quiver.topics.events import Event, ProducerEpochGiven, ProducerIdsReserved
from quiver.topics.state import CatalogueState

_BLOCK = 1000
_LAST_EPOCH = 2**31 - 1


class ProducerIds:
    """Ids are reserved in blocks on the journal of the catalogue, so most cost no write."""

    def __init__(self, state: CatalogueState, journaled: JournaledState[Event]) -> None:
        self._state = state
        self._journaled = journaled
        self._change = asyncio.Lock()
        self._next = 0

    def opened(self) -> None:
        """The journal is open. What was reserved before may have been given out."""
        self._next = self._state.producer_ids_upper

    async def new(self) -> int:
        """An id that was never given out before."""
        if self._next >= self._state.producer_ids_upper:
            async with self._change:
                if self._next >= self._state.producer_ids_upper:
                    await self._journaled.append(ProducerIdsReserved(self._next + _BLOCK))
        self._next += 1
        return self._next - 1

    def was_given(self, producer_id: int, epoch: int) -> bool:
        """Whether a producer without transactions may use an epoch."""
        is_known = 0 <= producer_id < self._next
        return is_known and 0 <= epoch <= self._state.producer_epochs.get(producer_id, 0)

    async def next_epoch(self, producer_id: int, epoch: int) -> tuple[int, int]:
        """The epoch after one that was given out; a new id, if it was not, or is forgotten."""
        async with self._change:
            if self.was_given(producer_id, epoch) and epoch < _LAST_EPOCH:
                if not self.was_given(producer_id, epoch + 1):
                    await self._journaled.append(ProducerEpochGiven(producer_id, epoch + 1))
                return producer_id, epoch + 1
        return await self.new(), 0
