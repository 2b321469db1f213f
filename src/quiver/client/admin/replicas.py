"""Which nodes of a cluster have the partitions of a topic. Pure."""

from collections.abc import Sequence
from typing import NamedTuple

from quiver.client.connection.address import Address, http_url
from quiver.protocol.messages import Metadata, NodeInfo, TopicInfo, UnitInfo


class ReplicaNode(NamedTuple):
    """A node that is alive, and where clients reach it."""

    node: str
    address: str
    """For `quiver.connect`."""
    http_url: str | None
    rack: str


class PartitionReplicas(NamedTuple):
    """Empty for a broker that is alone."""

    partition: int
    leader: ReplicaNode | None
    """None: nobody, for the moment."""
    replicas: tuple[ReplicaNode, ...] = ()
    """Those that are alive, the preferred leader first."""
    in_sync: tuple[ReplicaNode, ...] = ()
    """Those of them that have everything."""


def partition_replicas(topic: TopicInfo, metadata: Metadata) -> list[PartitionReplicas]:
    nodes = {each.node: _shown(each) for each in metadata.nodes}
    units = topic.units or (-1,) * topic.partitions
    nobody = UnitInfo("")
    return [_of_unit(number, metadata.units.get(unit, nobody), nodes) for number, unit in enumerate(units)]


def _of_unit(partition: int, unit: UnitInfo, nodes: dict[str, ReplicaNode]) -> PartitionReplicas:
    def known(names: Sequence[str]) -> tuple[ReplicaNode, ...]:
        return tuple(nodes[name] for name in names if name in nodes)

    return PartitionReplicas(partition, nodes.get(unit.leader), known(unit.replicas), known(unit.in_sync))


def _shown(node: NodeInfo) -> ReplicaNode:
    address = str(Address(node.host, node.port))
    return ReplicaNode(node.node, address, http_url(address, node.http_port), node.rack)
