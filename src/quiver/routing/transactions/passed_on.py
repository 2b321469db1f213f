"""Frames of transactions that this worker has passed on to their owners.

A client may send frames and the commit after them over one connection without waiting. The commit goes to worker 0
and could overtake the frames, so it waits here until all of them have a response.
"""

import asyncio
from collections.abc import Iterable

from quiver.model.errors import InvalidFrame, StalePartitionCount
from quiver.model.transaction import ProducerKey
from quiver.partition.partition import Appended, Frame
from quiver.records.header import COLUMN_DELIVER_AT, FrameHeader, unpack_header
from quiver.transactions.events import Participant
from quiver.transactions.owners.frames import TransactionFrames
from quiver.transactions.publishing import TransactionLogs

_REMEMBERED = 10_000
"""Transactions with a frame that was refused."""


class PassedOnFrames:
    def __init__(self) -> None:
        self.logs: TransactionLogs
        """Of all workers; set before the first frame."""
        self._transactions: dict[tuple[int, int], TransactionFrames] = {}
        """By producer id and epoch: those with frames that have no response yet, or were refused."""

    def note(self, topic_id: int, partition: int, frame: Frame, appended: "asyncio.Future[Appended]") -> None:
        """A frame was passed on; the owner checks it."""
        header = _header(frame)
        if header is None or not header.is_transactional:
            return
        key = header.producer_id, header.producer_epoch
        frames = self._transactions.get(key)
        if frames is None:
            frames = self._transactions[key] = TransactionFrames(f"{key[0]}:{key[1]}")
            if len(self._transactions) > _REMEMBERED:
                del self._transactions[next(iter(self._transactions))]
        place = Participant(topic_id, partition, bool(header.columns & COLUMN_DELIVER_AT))
        frames.begun()

        def on_done(done: "asyncio.Future[Appended]") -> None:
            error = asyncio.CancelledError() if done.cancelled() else done.exception()
            if isinstance(error, StalePartitionCount):
                frames.never_joined()
            else:
                frames.done(place, header.base_sequence, error)
            if frames.is_over and self._transactions.get(key) is frames:
                del self._transactions[key]

        appended.add_done_callback(on_done)

    async def complete(self, producers: Iterable[ProducerKey]) -> None:
        """Returns when the frames of these have their responses. Raises InvalidRequest if one is missing."""
        for each in producers:
            frames = self._transactions.get((each.producer_id, each.epoch))
            if frames is not None:
                await frames.idle()
                await self._find_refused(each, frames)
                frames.check_whole()

    async def _find_refused(self, key: ProducerKey, frames: TransactionFrames) -> None:
        """A frame that was refused may have been sent again through another worker, or to the owner."""
        for place, sequence in frames.refused:
            if not place.is_schedule:
                where = place.topic_id, place.partition
                if await self.logs.next_sequence(*where, key.producer_id, key.epoch) > sequence:
                    frames.found(place, sequence)

    def forget(self, producers: Iterable[ProducerKey]) -> None:
        """These have ended."""
        for each in producers:
            self._transactions.pop((each.producer_id, each.epoch), None)


def _header(frame: Frame) -> FrameHeader | None:
    try:
        return unpack_header(frame)
    except InvalidFrame:
        return None
