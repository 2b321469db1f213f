"""Coordination, this process's view of it, and what is nothing without it: topics and producer ids."""

from collections.abc import Sequence

from quiver.broker.settings import BrokerSettings
from quiver.coordination.local import LocalCoordination
from quiver.coordination.port import Coordination
from quiver.coordination.view import View
from quiver.model.limits import Limits
from quiver.model.names import LeaderEpoch
from quiver.producers.service import ProducerIds
from quiver.storage.port import Storage
from quiver.system.clock import Clock
from quiver.system.randomness import Randomness
from quiver.telemetry.periodic_task import PeriodicTask
from quiver.telemetry.supervised_task import SupervisedTask
from quiver.topics.catalogue import TopicCatalogue


class Metadata:
    def __init__(
        self,
        coordination: Coordination | None,
        settings: BrokerSettings,
        *,
        clock: Clock,
        randomness: Randomness,
        limits: Limits,
    ) -> None:
        """Without `coordination`, it is in a journal of this broker."""
        self._local: LocalCoordination | None = None
        if coordination is None:
            coordination = self._local = LocalCoordination(clock=clock)
        self.coordination = coordination
        self.view = View(coordination)
        self.catalogue = TopicCatalogue(
            self.view,
            clock=clock,
            randomness=randomness,
            defaults=settings.topic_defaults,
            limits=limits,
            replicas=settings.replicas,
        )
        self.producer_ids = ProducerIds(self.view, clock=clock)
        self._is_controller = settings.placement.is_controller

    @property
    def tasks(self) -> Sequence[SupervisedTask | PeriodicTask]:
        return [self.view.task, *([] if self._local is None else [self._local.task])]

    async def open(self, storage: Storage, epoch: LeaderEpoch) -> None:
        """CorruptData stops the start: without topics nothing else can be read."""
        if self._local is not None:
            await self._local.open(storage, epoch)
        try:
            if self._is_controller:
                await self.producer_ids.open(storage, epoch)
            await self.view.open()
            await self.catalogue.open()
        except BaseException:
            await self.close()
            raise

    async def close(self) -> None:
        await self.producer_ids.close()
        await self.view.close()
        if self._local is not None:
            await self._local.close()
