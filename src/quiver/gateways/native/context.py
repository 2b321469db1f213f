"""What all connections of a native gateway share."""

import socket
from collections.abc import Callable
from typing import NamedTuple

import msgspec

from quiver.gateways.native.settings import NativeSettings
from quiver.routing.facade import Facade
from quiver.system.memory_budget import MemoryBudget
from quiver.telemetry.gateway_counts import GatewayCounts


class NativeCounts(msgspec.Struct):
    """What went through the port since it was opened."""

    connections_open: int = 0
    connections_total: int = 0
    connections_refused: int = 0
    clients_stalled: int = 0
    requests: int = 0
    failures: int = 0
    bytes_received: int = 0
    bytes_sent: int = 0


class OtherPorts(msgspec.Struct):
    """Where else the broker listens, for clients that ask by the native port; known once those ports are bound."""

    http: int = 0


class WorkerPlace(NamedTuple):
    """Which worker this is, and how connections get to others."""

    worker: int = 0
    workers: int = 1
    pass_on: Callable[[int, socket.socket, bytes], None] | None = None
    """Passes a client's socket to a worker, with what was read from it; OSError when that worker takes none."""


class NativeContext(NamedTuple):
    broker: Facade
    settings: NativeSettings
    counts: NativeCounts
    served: GatewayCounts
    budget: MemoryBudget
    """The memory that requests and responses of all connections may take together."""
    ports: OtherPorts
    place: WorkerPlace = WorkerPlace()
