"""What all seeds of one command have in common."""

from typing import NamedTuple

from quiver.testing.simulation.workloads.choice import WORKLOADS


class Plan(NamedTuple):
    seconds: float
    """Of virtual time with faults."""
    workers: int | None = None
    """Of each broker, or of the cluster; without a number, the seed decides."""
    workloads: tuple[str, ...] = WORKLOADS
    """A node or a cluster has some of these."""
    is_cluster: bool = False
    """Nodes that know each other and have replicas, instead of brokers that do not."""
