"""Which replica of a partition is the nearest to the process that reads it."""

import os
import socket
from collections.abc import Callable, Sequence
from functools import lru_cache

from quiver.client import PartitionReplicas, ReplicaNode
from quiver.client.connection.address import parse_address

RACK_VARIABLE = "QUIVER_RACK"
"""Where a machine is, in the environment of its executors."""


def nearest_replica(
    replicas: PartitionReplicas, rack: str | None, is_here: Callable[[str], bool]
) -> ReplicaNode | None:
    """One on this machine, else one in this rack, else the leader. Pure. None if nobody leads."""
    in_sync: Sequence[ReplicaNode] = replicas.in_sync
    here = next((node for node in in_sync if is_here(node.address)), None)
    near = next((node for node in in_sync if rack is not None and node.rack == rack), None)
    return here or near or replicas.leader


def own_rack(chosen: str | None) -> str | None:
    return chosen or os.environ.get(RACK_VARIABLE) or None


@lru_cache(maxsize=1024)
def is_here(address: str) -> bool:
    """Whether an address is one of this machine: only then can a socket be bound to it."""
    try:
        found = socket.getaddrinfo(parse_address(address).host, 0, type=socket.SOCK_STREAM)
        return any(_is_bindable(family, place) for family, _, _, _, place in found)
    except OSError:
        return False


def _is_bindable(family: int, place: tuple[object, ...]) -> bool:
    with socket.socket(family, socket.SOCK_STREAM) as sock:
        try:
            sock.bind(place)
        except OSError:
            return False
    return True
