"""Commits pushes and acks in one transaction of the broker."""

import asyncio
import contextlib
from collections.abc import Sequence
from typing import TYPE_CHECKING

from quiver.gateways.queen.transactions.frames import Push, frames_of
from quiver.messages.publish import Published
from quiver.model.errors import ProducerFenced, QuiverError, UnknownProducer
from quiver.model.transaction import LeasedAcks, ProducerKey
from quiver.system.pace import Pace

if TYPE_CHECKING:
    from quiver.routing.facade import Facade

_IDLE_PRODUCERS = 64
_TIMEOUT_MS = 60_000


class Committer:
    """Producers are used again, so a transaction costs one record of the journal and not two."""

    def __init__(self, broker: "Facade") -> None:
        self._broker = broker
        self._idle: list[ProducerKey] = []
        self._aborting: set[asyncio.Task[None]] = set()

    async def commit(self, pushes: Sequence[Push], acks: Sequence[LeasedAcks]) -> list[Published]:
        """What became of each push. Any QuiverError means that nothing took effect, or that nobody knows (retryable
        ones)."""
        if not pushes and not acks:
            return []
        while self._idle:
            try:
                return await self._commit(self._idle.pop(), pushes, acks)
            except (UnknownProducer, ProducerFenced):
                continue  # it was idle for so long that the broker has forgotten it
        return await self._commit(await self._broker.transactions.init(None, _TIMEOUT_MS), pushes, acks)

    async def _commit(
        self, producer: ProducerKey, pushes: Sequence[Push], acks: Sequence[LeasedAcks]
    ) -> list[Published]:
        try:
            published = await self._write(producer, pushes)
            answer = await self._broker.transactions.commit([producer], acks=acks)
        except BaseException:
            task = asyncio.get_running_loop().create_task(self._abort(producer))
            self._aborting.add(task)
            task.add_done_callback(self._aborting.discard)
            await asyncio.shield(task)
            raise
        self._keep(answer.producers)
        return published

    async def _write(self, producer: ProducerKey, pushes: Sequence[Push]) -> list[Published]:
        now_ms = self._broker.clock.now_ms()
        pace = Pace()
        begun = []
        try:
            for frame in frames_of(pushes, self._broker.limits.frame_bytes, now_ms):
                topic_id, count, partition, *_ = frame.place
                data = frame.build(pushes, producer, now_ms)
                begun.append((frame, self._broker.produce(topic_id, partition, data, partition_count=count)))
                await pace.turn()
        finally:
            if begun:
                await asyncio.wait([future for _, future in begun])
        outcomes: dict[int, Published] = {}
        for frame, future in begun:
            outcomes.update(frame.outcomes(future.result()))
        return [outcomes[index] for index in range(len(pushes))]

    async def _abort(self, producer: ProducerKey) -> None:
        """What fails here is aborted by the broker when its time is over."""
        with contextlib.suppress(QuiverError):
            answer = await self._broker.transactions.abort([producer])
            self._keep(answer.producers)

    def _keep(self, producers: Sequence[ProducerKey]) -> None:
        if len(self._idle) < _IDLE_PRODUCERS:
            self._idle += producers
