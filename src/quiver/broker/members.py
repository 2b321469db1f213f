"""A cluster as its brokers show it."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol

from quiver.model.errors import NotSupported


def no_cluster() -> NotSupported:
    """What a broker that is alone refuses to do with nodes."""
    return NotSupported(
        "this broker is alone on its data directory, so there is no node to drain or remove, and nothing to rebalance"
        " or reassign: start a cluster with quiver serve --cluster NAME --etcd HOSTS --node-id N"
    )


def no_replicas() -> NotSupported:
    """What brokers on one database refuse to do with replicas."""
    return NotSupported(
        "brokers on one database have no replicas to reassign, because PostgreSQL keeps the messages: move workers"
        " between brokers with quiver cluster drain or rebalance"
    )


class ReplicaSet(NamedTuple):
    """Nodes, by their ids."""

    replicas: list[str]
    """The preferred leader first."""
    isr: list[str]
    """The in-sync set: they have everything."""
    eligible: list[str]
    """Outside the set, and may lead if nobody in it can."""
    adding: list[str]
    removing: list[str]
    min_isr: int
    lag_bytes: dict[str, int]
    """By follower, where the node that was asked leads: about what each lacks."""
    throttle_bytes_per_sec: int = 0
    """For those that are being added; 0: the limit of the leader's node counts."""


class WorkerPlace(NamedTuple):
    worker: int
    node: str
    """The broker that runs it; empty: nobody is named."""
    next_node: str
    """The one that it is handed over to, if it moves."""
    epoch: int
    """Rises with every move."""
    replicas: ReplicaSet | None = None
    """In a replicated cluster."""


class MemberNode(NamedTuple):
    node: str
    state: str
    """joining: no replica of it is in sync yet; alive, draining, or dead: its lease has ended."""
    leaders: list[int]
    """Units that it leads: workers that it runs."""
    is_controller: bool
    host: str = ""
    native_port: int = 0
    http_port: int = 0
    link_port: int = 0
    pid: int = 0
    version: str = ""
    started_ms: int = 0
    rack: str = ""
    catch_up_bytes_per_second: int = 0
    """The most that it sends to replicas that are not in sync; 0: no limit."""


class UnitMove(NamedTuple):
    """A unit that operators have given other replicas."""

    worker: int
    state: str
    """running, done, cancelled, timed_out, or replaced: it got another target."""
    target: list[str]
    """Nodes, the preferred leader first."""
    before: list[str]
    """Where it goes back to when it is cancelled."""
    replicas: ReplicaSet | None
    """What there is now."""


class ReassignmentOptions(NamedTuple):
    throttle_bytes_per_sec: int = 0
    """What new replicas get at most; 0: the limit of the leader's node counts."""
    timeout_ms: int = 0
    """A unit that is not in sync in this time goes back; 0: it may take as long as it takes."""


class ReassignmentProgress(NamedTuple):
    number: int
    """0: nothing was done."""
    state: str
    """That of its units: running while one of them is."""
    moves: list[UnitMove]
    started_ms: int
    ended_ms: int
    """0: it goes on."""
    options: ReassignmentOptions


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

    async def remove(self, node: str, *, dry_run: bool = False) -> list[WorkerPlace]:
        """Whose replicas it had, with the nodes that get them. NodeInUse while its lease lasts."""
        ...

    async def rebalance(self, *, dry_run: bool = False) -> list[WorkerPlace]:
        """What is on its way to another node; of a dry run, what would be because of it."""
        ...

    def warnings(self) -> dict[str, str]: ...

    async def reassign(
        self, targets: Mapping[int, Sequence[str]], options: ReassignmentOptions, *, dry_run: bool
    ) -> ReassignmentProgress:
        """By worker: nodes, the preferred leader first. NotSupported where there are no replicas."""
        ...

    def reassignments(self) -> list[ReassignmentProgress]:
        """The newest first; the last 50."""
        ...

    def reassignment(self, number: int) -> ReassignmentProgress:
        """ReassignmentNotFound where there is none, or no longer."""
        ...

    async def cancel_reassignment(self, number: int) -> ReassignmentProgress:
        """What is on its way goes back; the same error, and NotSupported where there are no replicas."""
        ...
