"""A broker as a member of its cluster: its key under a lease that it keeps alive."""

import asyncio
import logging

from quiver.cluster.membership import records
from quiver.cluster.membership.records import NodeRecord
from quiver.cluster.membership.state import ClusterState
from quiver.coordination.port import Coordination, Put
from quiver.model.errors import QuiverError
from quiver.telemetry.supervised_task import SupervisedTask

logger = logging.getLogger(__name__)

LEASE_MS = 2000
KEEP_ALIVE_SECONDS = 0.5


class Session:
    """`join` first. When the lease is lost the session joins again by itself.

    `is_sole`: nobody else can have the node's id, so what another process has left is replaced at once; otherwise its
    lease is waited for.
    """

    def __init__(
        self, coordination: Coordination, state: ClusterState, record: NodeRecord, *, is_sole: bool = False
    ) -> None:
        self._coordination, self._state, self.record = coordination, state, record
        self._is_sole = is_sole
        self._lease_id = 0
        self._lasts_until = 0.0
        self.joined_at = 0.0
        """The time of the loop."""
        self.problem: str | None = None
        """Why this node is no member now."""
        self.is_store_away = False
        self.task = SupervisedTask("membership of the cluster", self._run)

    @property
    def node(self) -> str:
        return self.record.node

    @property
    def lease_id(self) -> int:
        return self._lease_id

    @property
    def lasts(self) -> bool:
        """By this process's clock, which does not know of pauses in which the lease was not kept alive before the
        process goes on."""
        return asyncio.get_running_loop().time() < self._lasts_until

    @property
    def may_serve(self) -> bool:
        """Also while the store of all leases is away: then nobody else can take anything over."""
        return self.lasts or self.is_store_away

    async def join(self) -> None:
        """Returns without a lease when a member speaks no version that this node does: then it joins when that is
        over."""
        await self._renew()
        self.task.start()

    async def show(self, record: NodeRecord) -> None:
        """Replaces what others see of this node."""
        self.record = record
        key, view = records.node_key(self.node), self._state.view
        while self._lease_id and self._state.nodes.get(self.node) != record:
            put = Put(key, records.encode(record), self._lease_id)
            if not await view.commit([view.expected(key)], [put]) and not self.lasts:
                return  # it joins again with the new record

    async def leave(self) -> None:
        """Others take over what this node ran."""
        await self.task.stop()
        lease_id, self._lease_id, self._lasts_until = self._lease_id, 0, 0.0
        if lease_id:
            try:
                await self._coordination.revoke(lease_id)
            except QuiverError as error:
                logger.warning("the lease of node %s ends by itself: %s", self.node, error)

    async def _run(self) -> None:
        while True:
            await asyncio.sleep(KEEP_ALIVE_SECONDS)
            try:
                await self._renew()
            except (QuiverError, TimeoutError) as error:
                self.is_store_away = True
                self.problem = f"the lease of this node cannot be renewed: {error}"

    async def _renew(self) -> None:
        problem = records.refusal(self.record, self._state.nodes)
        if problem is not None:
            await self._stay_away(problem)
        elif self._lease_id:
            await self._keep_alive()
        else:
            await self._put_key()
            self._state.wake()

    async def _stay_away(self, problem: str) -> None:
        if self.problem != problem:
            logger.error("node %s: %s", self.node, problem)
        self.problem, self.is_store_away = problem, False
        if self._lease_id:
            lease_id, self._lease_id, self._lasts_until = self._lease_id, 0, 0.0
            await self._coordination.revoke(lease_id)

    async def _keep_alive(self) -> None:
        began = asyncio.get_running_loop().time()
        async with asyncio.timeout(LEASE_MS / 1000):
            is_alive = await self._coordination.keep_alive(self._lease_id)
        self.is_store_away = False
        if is_alive:
            self._lasts_until = began + LEASE_MS / 1000
            self.problem = None
            return
        self.problem = "the lease of this node has ended: it joins again"
        logger.warning("node %s has lost its lease, and joins again", self.node)
        await self._put_key()
        self._state.wake()

    async def _put_key(self) -> None:
        key, view = records.node_key(self.node), self._state.view
        while True:
            changed, known = self._state.changed, self._state.nodes.get(self.node)
            if known is not None and known.incarnation != self.record.incarnation and not self._is_sole:
                logger.warning("another process has the node id %s: its lease is waited for", self.node)
                await changed.wait()
                continue
            began = asyncio.get_running_loop().time()
            lease_id = await self._coordination.grant_lease(LEASE_MS)
            if await view.commit([view.expected(key)], [Put(key, records.encode(self.record), lease_id)]):
                break
        self._lease_id, self._lasts_until = lease_id, began + LEASE_MS / 1000
        self.joined_at = asyncio.get_running_loop().time()
        self.problem = None
