"""Who runs which worker of a replicated cluster: the leader of its unit; and what it is run on."""

import asyncio

from quiver.app.cluster.assignments import HostedStorage
from quiver.cluster.ownership import Assignment
from quiver.model.errors import NotLeader, NotOwner
from quiver.replication.node import ReplicatedNode
from quiver.replication.unit import NOBODY


class UnitAssignments:
    def __init__(self, replicas: ReplicatedNode) -> None:
        self._replicas = replicas

    @property
    def changed(self) -> asyncio.Event:
        return self._replicas.changed

    def of(self, worker: int) -> Assignment | None:
        found = self._replicas.unit(worker)
        if found is None:
            return None
        unit, _ = found
        node = "" if unit.leader == NOBODY else str(unit.leader)
        return Assignment(node, unit.epoch, start_epoch=unit.incarnation)

    async def hand_over(self, worker: int, assignment: Assignment) -> None:
        """Units have no named successor: the controller names another leader, which deposes this one."""

    async def open_storage(self, worker: int, assignment: Assignment) -> HostedStorage:
        try:
            return await self._replicas.lead(worker)
        except NotLeader as error:
            raise NotOwner(worker=worker) from error
