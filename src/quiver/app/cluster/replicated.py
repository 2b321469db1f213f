"""A node of a replicated cluster: its data directory, and coordination for what all nodes have to agree on."""

import os
from collections.abc import Callable
from typing import NamedTuple, Protocol

from quiver import __version__
from quiver.app.addresses import advertised_host
from quiver.app.cluster.cluster_node import ClusterNode, ClusterParts, NewBroker
from quiver.app.cluster.node_calls import NodeCalls, serve_node_calls
from quiver.app.cluster.own_disk import Mark, OwnDisk, cluster_id
from quiver.app.cluster.replicas.reassignments import Reassignments
from quiver.app.cluster.replicas.replica_sets import ReplicaSets
from quiver.app.cluster.units import UnitAssignments
from quiver.app.config import Config
from quiver.cluster.membership.reassignment_records import ReassignmentRecords
from quiver.cluster.membership.records import NodeRecord, Setup
from quiver.cluster.membership.state import ClusterState, ensure_setup
from quiver.cluster.membership.unit_decisions import UnitDecisions
from quiver.coordination.port import Coordination
from quiver.coordination.view import View
from quiver.metrics.sources.replicas import ReplicaNumbers
from quiver.model.errors import InvalidSetting
from quiver.model.topic import TopicConfig
from quiver.replication.clean_stop import CleanStop
from quiver.replication.node import ReplicatedNode
from quiver.replication.settings import Member, ReplicationSettings
from quiver.storage.local.storage import LocalStorage
from quiver.system.clock import Clock, SystemClock
from quiver.system.files import Files
from quiver.system.network import Network, TcpNetwork
from quiver.system.randomness import Randomness, SystemRandomness
from quiver.topics.replica_counts import ReplicaCounts

DEFAULT_WORKERS = 6
DEFAULT_REPLICAS = 3

NewReplicatedBroker = Callable[[ReplicaCounts], NewBroker]


class NodeSystem(NamedTuple):
    """What the simulator replaces."""

    files: Files = Files()
    clock: Clock = SystemClock()
    randomness: Randomness = SystemRandomness()
    network: Network = TcpNetwork()


DEFAULT_SYSTEM = NodeSystem()


class SharedCoordination(Coordination, Protocol):
    async def close(self) -> None: ...


class ReplicatedData:
    """What a node keeps, closed in this order: nothing is written after it has said that it stopped cleanly."""

    def __init__(self, storage: LocalStorage, coordination: SharedCoordination, clean_stop: CleanStop) -> None:
        self.storage, self.coordination, self._clean_stop = storage, coordination, clean_stop
        self.lost_at = 0
        self.replicas: ReplicatedNode | None = None
        self.is_clean = False
        """It was a member, and everything may be closed as after a stop."""

    async def close(self) -> None:
        if self.replicas is not None:
            await self.replicas.close()
        await self.coordination.close()
        await self.storage.close()
        if self.is_clean and self.storage.problem is None:
            self._clean_stop.leave(self.lost_at)
            self.is_clean = False


class StartedNode(NamedTuple):
    data: ReplicatedData
    node: ClusterNode


async def start_replicated(
    config: Config,
    storage: LocalStorage,
    coordination: SharedCoordination,
    new_broker: NewReplicatedBroker,
    system: NodeSystem = DEFAULT_SYSTEM,
) -> StartedNode:
    """`storage` is open, and this function's like `coordination`; nothing stays open after a failure."""
    data = ReplicatedData(storage, coordination, CleanStop(config.data_dir, system.files))
    node: ClusterNode | None = None
    try:
        number = _node_number(config)
        setup = await _setup(config, coordination, system.randomness)
        own_disk = OwnDisk(config.data_dir, system.files, Mark(config.cluster or "", cluster_id(setup), str(number)))
        member = await _new_member(config, own_disk, number, data, system)
        node = await _new_node(config, setup, member, data, new_broker, system)
        await node.start(config.host, config.link_port)
        await own_disk.joined(coordination, member.incarnation)
        data.is_clean = True
    except BaseException:
        if node is not None:
            await node.abandon()
        await data.close()
        raise
    return StartedNode(data, node)


async def _new_member(
    config: Config, own_disk: OwnDisk, number: int, data: ReplicatedData, system: NodeSystem
) -> Member:
    incarnation = await own_disk.take(data.storage, data.coordination)
    data.lost_at = CleanStop(config.data_dir, system.files).take(incarnation)
    return Member(number, incarnation, data.lost_at)


async def _new_node(
    config: Config,
    setup: Setup,
    member: Member,
    data: ReplicatedData,
    new_broker: NewReplicatedBroker,
    system: NodeSystem,
) -> ClusterNode:
    coordination = data.coordination
    calls = NodeCalls()
    data.replicas = replicas = ReplicatedNode(
        member,
        data.storage,
        coordination,
        calls,
        ReplicationSettings(catch_up_bytes_per_second=config.catch_up_bytes_per_second or None),
    )
    await replicas.open()
    state = ClusterState(View(coordination), setup.workers)
    decisions = UnitDecisions(state, replica_count=setup.replication_factor, min_isr=setup.min_isr)
    assignments, replica_sets = UnitAssignments(replicas), ReplicaSets(state, decisions, replicas)
    parts = ClusterParts(
        coordination,
        setup,
        state,
        decisions,
        data.storage,
        assignments,
        assignments.open_storage,
        new_broker(ReplicaCounts(setup.replication_factor, setup.min_isr)),
        replica_sets=replica_sets,
        reassignments=Reassignments(ReassignmentRecords(state), replica_sets, coordination, system.clock),
        moves_first=True,
        leave=replicas.leave,
        disk_failure=lambda: data.storage.failure,
    )
    record = NodeRecord(
        node=str(member.node),
        incarnation=member.incarnation,
        host=advertised_host(config),
        native_port=config.native_port,
        http_port=config.http_port,
        link_port=0,
        pid=os.getpid(),
        started_ms=system.clock.now_ms(),
        version=__version__,
        rack=config.rack or "",
        lost_at=member.lost_at,
        link_versions=config.spoken_link_versions,
        catch_up_bytes_per_second=config.catch_up_bytes_per_second,
    )
    node = ClusterNode(record, parts, network=system.network, randomness=system.randomness)
    calls.peers = node.gateway.peers
    serve_node_calls(node.gateway.handlers, replicas)
    node.gateway.broker.near_reads.replicas = replicas
    node.gateway.local.metrics.sources.append(ReplicaNumbers(replicas))
    return node


def _node_number(config: Config) -> int:
    if config.node_id is None or not config.node_id.isdigit():
        problem = "a node of a cluster on etcd needs a number of its own, such as --node-id 1"
        raise InvalidSetting(setting="node_id", problem=problem)
    return int(config.node_id)


async def _setup(config: Config, coordination: Coordination, randomness: Randomness) -> Setup:
    replicas = config.replication_factor or DEFAULT_REPLICAS
    wanted = Setup(
        config.cluster_workers or DEFAULT_WORKERS,
        randomness.token(32).hex(),
        replicas,
        config.min_isr or max(1, replicas - 1),
    )
    if wanted.min_isr > replicas:
        raise InvalidSetting(setting="min_isr", problem=f"is {wanted.min_isr}, and there are {replicas} replicas")
    setup = await ensure_setup(coordination, wanted)
    for name, value, agreed in (
        ("cluster_workers", config.cluster_workers, setup.workers),
        ("replication_factor", config.replication_factor, setup.replication_factor),
        ("min_isr", config.min_isr, setup.min_isr),
    ):
        if value not in (None, agreed):
            problem = f"the first node of this cluster has set it to {agreed}, and it cannot be changed"
            raise InvalidSetting(setting=name, problem=problem)
    defaults = config.topic_defaults
    given = {name: value for name, value in defaults.settings().items() if value != TopicConfig().settings()[name]}
    ReplicaCounts(setup.replication_factor, setup.min_isr).check(given, defaults)
    return setup
