"""A broker as a node of a cluster: its membership, the workers that it runs, and the one that its gateways call."""

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Iterable
from typing import NamedTuple

import msgspec

from quiver.app.cluster.administration import Administration
from quiver.app.cluster.assignments import Assignments, HostedStorage, OpenStorage
from quiver.app.cluster.gate import WorkerGate
from quiver.app.cluster.hosting import Hosting
from quiver.app.cluster.replicas.reassignments import Reassignments
from quiver.app.cluster.replicas.replica_sets import ReplicaSets
from quiver.app.cluster.wiring import Wiring
from quiver.broker.broker import Broker
from quiver.cluster.membership import records
from quiver.cluster.membership.controlling import Controlling
from quiver.cluster.membership.decisions import Decisions
from quiver.cluster.membership.disk_watch import DiskWatch
from quiver.cluster.membership.records import NodeRecord, Setup
from quiver.cluster.membership.session import Session
from quiver.cluster.membership.state import ClusterState
from quiver.cluster.placement import Placement
from quiver.coordination.port import Coordination, Put
from quiver.links.handshake import Handshake
from quiver.links.incoming_calls import OpenGate
from quiver.model.errors import QuiverError
from quiver.routing.worker import Worker
from quiver.storage.port import Storage
from quiver.system.network import Network
from quiver.system.randomness import Randomness
from quiver.telemetry.supervised_task import SupervisedTask

_log = logging.getLogger(__name__)

NewBroker = Callable[[Placement, Storage, Coordination], Broker]
_ASSIGNED_SECONDS = 5.0
_MOVE_SECONDS = 3.0


async def _nothing() -> None:
    return


def _no_failure() -> None:
    return None


class ClusterParts(NamedTuple):
    """What differs between kinds of clusters."""

    coordination: Coordination
    setup: Setup
    state: ClusterState
    """Its view is not open yet."""
    decisions: Decisions
    storage: Storage
    """Of this process: for the worker that its gateways call."""
    assignments: Assignments
    open_storage: OpenStorage
    new_broker: NewBroker
    is_sole: bool = False
    """Nobody else can have the id of this node."""
    replica_sets: ReplicaSets | None = None
    """In a replicated cluster."""
    reassignments: Reassignments | None = None
    """The same."""
    moves_first: bool = False
    """Before this node stops, others take over what it runs."""
    leave: Callable[[], Awaitable[None]] = _nothing
    """Called when nothing runs here any more."""
    disk_failure: Callable[[], str | None] = _no_failure
    """Why this node must lead nothing before its next start."""
    is_store_watched: bool = False
    """The store of leases is that of messages, so its outages are the storage's problem."""
    on_nodes: Callable[[list[str]], None] = lambda nodes: None
    """Gets the ids of all members whenever something has changed."""


class ClusterNode:
    def __init__(self, record: NodeRecord, parts: ClusterParts, *, network: Network, randomness: Randomness) -> None:
        """The ports in the record may be set later, by `serve_at`."""
        self._parts, self._network = parts, network
        self.state = state = parts.state
        self.session = Session(parts.coordination, state, record, is_sole=parts.is_sole)
        self.controlling = Controlling(state, self.session, parts.decisions)
        handshake = Handshake(record.node, parts.setup.secret, randomness, record.link_versions)
        self._wiring = Wiring(record.node, state, parts.assignments, handshake, network)
        self.hosting = Hosting(
            record.node,
            state.workers,
            parts.assignments,
            parts.open_storage,
            self._new_hosted,
            may_serve=lambda: self.session.may_serve,
        )
        self.gateway = self._new_worker(Placement(state.workers, state.workers), parts.storage, None)
        self._wiring.hosting, self._wiring.gateway = self.hosting, self.gateway
        self._disk_watch = DiskWatch(parts.disk_failure, self.session, state)
        self._redirecting = SupervisedTask("the links of the cluster", self._redirect)
        self.administration = Administration(
            self.session,
            self.controlling,
            self.hosting,
            state,
            parts.assignments,
            is_store_watched=parts.is_store_watched,
        )
        self.administration.replica_sets, self.administration.replica_moves = parts.replica_sets, parts.reassignments
        if parts.reassignments is not None:
            self.controlling.also = parts.reassignments.look
        self.gateway.broker.node.members = self.administration

    @property
    def tasks(self) -> list[SupervisedTask]:
        watching = self._disk_watch.task
        return [self.state.view.task, self.session.task, self.controlling.task, self._redirecting, watching]

    async def start(self, host: str, link_port: int) -> None:
        """Returns when this node is a member, and what is assigned to it runs."""
        await self._wiring.listen(host, link_port)
        self.session.record = msgspec.structs.replace(self.session.record, link_port=self._wiring.port)
        await self.state.view.open()
        await self.session.join()
        await self.controlling.decide()
        self.controlling.task.start()
        self._redirecting.start()
        self._disk_watch.task.start()
        await self._all_assigned()
        starting = asyncio.ensure_future(self.hosting.start())
        try:
            await self.gateway.start()
        finally:
            await asyncio.gather(starting, return_exceptions=True)
        await starting

    async def serve_at(self, native_port: int, http_port: int) -> None:
        """Clients can connect."""
        record = msgspec.structs.replace(self.session.record, native_port=native_port, http_port=http_port)
        await self.session.show(record)

    async def stop_working(self) -> None:
        """Finishes what was accepted, and lets others take over."""
        if self._parts.moves_first and self._has_others and self.session.lease_id:
            await self._move_away()
        await self.gateway.local.stop()
        if not self._has_others:
            self.gateway.peers.end()
        replica_sets = self._parts.replica_sets
        await self.hosting.stop(drops=replica_sets is not None and not replica_sets.can_commit)
        await self._parts.leave()
        await self.controlling.task.stop()
        await self.session.leave()

    async def abandon(self) -> None:
        """The start has failed."""
        await self.hosting.stop()
        await self.gateway.local.stop()
        await self.close(0)
        with contextlib.suppress(QuiverError):
            await self.session.leave()

    async def close(self, grace_seconds: float = 1.0) -> None:
        self.gateway.peers.end()
        await self.gateway.peers.close(grace_seconds)
        await self._disk_watch.task.stop()
        await self._redirecting.stop()
        await self._wiring.close()
        await self.controlling.task.stop()
        await self.session.task.stop()
        await self.state.view.close()

    async def _move_away(self) -> None:
        """Returns when the controller has named others, or after a while. It ends with the lease of this node."""
        node, state, assignments = self.session.node, self.state, self._parts.assignments
        with contextlib.suppress(QuiverError, TimeoutError):
            async with asyncio.timeout(_MOVE_SECONDS):
                if node not in state.draining:
                    await state.view.commit([], [Put(records.draining_key(node), b"", self.session.lease_id)])
                while True:
                    changed = assignments.changed
                    found = [assignments.of(worker) for worker in range(state.workers)]
                    if all(each is None or each.node != node for each in found):
                        return
                    await changed.wait()

    @property
    def _has_others(self) -> bool:
        return any(node != self.session.node for node in self.state.nodes)

    def _new_hosted(self, worker: int, storage: HostedStorage, gate: WorkerGate) -> Worker:
        return self._new_worker(Placement(worker, self.state.workers), storage, gate)

    def _new_worker(self, placement: Placement, storage: Storage, gate: WorkerGate | None) -> Worker:
        parts = self._parts
        worker = Worker(
            placement,
            self._wiring.dial,
            lambda coordination: parts.new_broker(placement, storage, parts.coordination),
            coordination=parts.coordination,
            gate=gate or OpenGate(),
        )
        worker.peers.node = self.session.node
        worker.peers.nodes = lambda: self._wiring.nodes(placement.worker)
        worker.peers.runs_here = self._is_here
        return worker

    def _is_here(self, worker: int) -> bool:
        return worker >= self.state.workers or self.administration.is_here(worker)

    async def _all_assigned(self) -> None:
        """Where there is no other broker yet, everything begins here. Otherwise nobody is waited for."""
        try:
            async with asyncio.timeout(_ASSIGNED_SECONDS):
                assignments = self._parts.assignments
                while True:
                    changed = assignments.changed
                    if all(assignments.of(worker) is not None for worker in range(self.state.workers)):
                        return
                    await changed.wait()
        except TimeoutError:
            _log.warning("not all workers have a broker yet: nobody has decided")

    async def _redirect(self) -> None:
        """Nodes and assignments may be known by two watches, of which either may be the later one."""
        while True:
            changed = dict.fromkeys((self.state.changed, self._parts.assignments.changed))
            self._wiring.redirect()
            self._parts.on_nodes(list(self.state.nodes))
            await _any_of(changed)


async def _any_of(events: Iterable[asyncio.Event]) -> None:
    """Returns when one of them is set."""
    waits = [asyncio.get_running_loop().create_task(event.wait()) for event in events]
    try:
        await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for wait in waits:
            wait.cancel()
        await asyncio.gather(*waits, return_exceptions=True)
