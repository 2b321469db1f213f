"""A cluster as its brokers show it."""

from typing import NamedTuple, Protocol


class WorkerPlace(NamedTuple):
    worker: int
    node: str
    """The broker that runs it; empty: nobody is named."""
    next_node: str
    """The one that it is handed over to, if it moves."""
    epoch: int
    """Rises with every move."""


class MemberNode(NamedTuple):
    node: str
    state: str
    """alive, draining, or gone: its lease has ended."""
    workers: list[int]
    is_controller: bool
    host: str = ""
    native_port: int = 0
    http_port: int = 0
    link_port: int = 0
    pid: int = 0
    version: str = ""
    started_ms: int = 0


class ClusterMembers(NamedTuple):
    node: str
    """The one that was asked."""
    nodes: list[MemberNode]


class ClusterMembership(Protocol):
    @property
    def node(self) -> str:
        """The id of this one."""
        ...

    def problems(self) -> dict[str, str]:
        """Of this node as a member."""
        ...

    def is_here(self, worker: int) -> bool:
        """Whether this node is to run a worker."""
        ...

    def places(self) -> list[WorkerPlace]: ...

    def nodes(self) -> list[MemberNode]: ...

    async def drain(self, node: str, *, ends: bool = False) -> MemberNode:
        """NodeNotFound where there is no such node."""
        ...

    async def remove(self, node: str) -> None:
        """NodeInUse while its lease lasts."""
        ...

    async def rebalance(self) -> list[WorkerPlace]: ...
