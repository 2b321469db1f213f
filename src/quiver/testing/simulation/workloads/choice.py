"""Which workloads a seed has."""

import random
from collections.abc import Sequence

from quiver.model.topic import Durability
from quiver.testing.simulation.faults import Faults
from quiver.testing.simulation.history import History
from quiver.testing.simulation.workloads.log import LogWorkload
from quiver.testing.simulation.workloads.port import Workload


def workloads_of(
    history: History, chance: random.Random, nodes: Sequence[str], faults: Faults
) -> list[tuple[str, Workload]]:
    """Each with the node it uses. Durability `interval` may lose the last second in a power cut."""
    durability: Durability = "fsync" if faults.cuts_power else chance.choice(["fsync", "interval"])
    return [(node, LogWorkload(history.part(), chance, durability)) for node in nodes]
