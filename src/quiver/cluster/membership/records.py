"""The keys of a cluster in coordination, and what they say."""

from collections.abc import Mapping
from typing import TypeVar

import msgspec

from quiver.cluster.ownership import Assignment
from quiver.links.versions import FIRST, LinkVersions, common_version

PREFIX = "cluster/"
SETUP = "cluster/setup"
CONTROLLER_KEY = "cluster/controller"
"""The node that decides who runs what, under its lease."""
WORKERS = "cluster/workers/"
_NODES, _DRAINING, _JOINED = "cluster/nodes/", "cluster/draining/", "cluster/joined/"

R = TypeVar("R", bound=msgspec.Struct)


class Setup(msgspec.Struct, frozen=True):
    """Written by the first broker of an installation."""

    workers: int
    secret: str
    """What brokers prove to each other that they know."""
    replication_factor: int = 1
    min_isr: int = 1


class NodeRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A broker, for as long as its lease lasts."""

    node: str
    incarnation: int
    """The start epoch of the process."""
    host: str
    """Where clients and other brokers reach it."""
    native_port: int
    http_port: int
    link_port: int
    """For other brokers."""
    pid: int
    started_ms: int
    version: str
    rack: str = ""
    lost_at: int = 0
    """The last incarnation that began after a stop that was not clean."""
    link_versions: LinkVersions = FIRST
    """Of the protocol between nodes."""
    catch_up_bytes_per_second: int = 0
    """What it sends at most to replicas that are not in sync; 0: no limit."""


def node_key(node: str) -> str:
    return f"{_NODES}{node}"


def worker_key(worker: int) -> str:
    return f"{WORKERS}{worker}"


def draining_key(node: str) -> str:
    return f"{_DRAINING}{node}"


def joined_key(node: str) -> str:
    """The incarnation that a node had when it was last a member."""
    return f"{_JOINED}{node}"


def node_of(key: str) -> str | None:
    return key.removeprefix(_NODES) if key.startswith(_NODES) else None


def worker_of(key: str) -> int | None:
    return int(key.removeprefix(WORKERS)) if key.startswith(WORKERS) else None


def draining_of(key: str) -> str | None:
    return key.removeprefix(_DRAINING) if key.startswith(_DRAINING) else None


def encode(record: msgspec.Struct | Assignment) -> bytes:
    return msgspec.json.encode(record._asdict() if isinstance(record, Assignment) else record)


def decode(data: bytes, kind: type[R]) -> R:
    return msgspec.json.decode(data, type=kind)


def decode_assignment(data: bytes) -> Assignment:
    """A later version may have added fields."""
    found = msgspec.json.decode(data)
    return Assignment(**{name: found[name] for name in Assignment._fields if name in found})


def refusal(record: NodeRecord, nodes: Mapping[str, NodeRecord]) -> str | None:
    """Why a node cannot be a member beside others: it could not speak with one that was started before it."""
    for name, other in sorted(nodes.items()):
        is_older = name != record.node and other.incarnation < record.incarnation
        if is_older and common_version(record.link_versions, other.link_versions) is None:
            return (
                f"node {name} speaks version {other.link_versions} of the protocol between nodes, this one speaks"
                f" {record.link_versions}: it is no member until node {name} is upgraded or gone"
            )
    return None
