"""Which workloads a seed has."""

import random
from collections.abc import Sequence

from quiver.model.topic import Durability
from quiver.testing.simulation.faults import Faults
from quiver.testing.simulation.history import History
from quiver.testing.simulation.node import Node
from quiver.testing.simulation.workloads.bank import BankWorkload
from quiver.testing.simulation.workloads.catalogue import CatalogueWorkload
from quiver.testing.simulation.workloads.delays import DelayWorkload
from quiver.testing.simulation.workloads.group import GroupWorkload
from quiver.testing.simulation.workloads.log import LogWorkload
from quiver.testing.simulation.workloads.port import Workload
from quiver.testing.simulation.workloads.queue import QueueWorkload
from quiver.testing.simulation.workloads.redrive import RedriveWorkload
from quiver.testing.simulation.workloads.schedules import ScheduleWorkload
from quiver.testing.simulation.workloads.table import TableWorkload

WORKLOADS = ("log", "queue", "delays", "bank", "group", "catalogue", "redrive", "schedules", "table")


def workloads_of(
    history: History, chance: random.Random, nodes: Sequence[Node], faults: Faults, names: Sequence[str]
) -> list[tuple[str, Workload]]:
    """Some of those with these names, each with the node it uses. Durability `interval` may lose the last second in
    a power cut."""
    durability: Durability = "fsync" if faults.cuts_power else chance.choice(["fsync", "interval"])
    found: list[tuple[str, Workload]] = []
    for node in nodes:
        kinds: list[Workload] = [
            LogWorkload(history.part(), chance, durability),
            QueueWorkload(history.part(), chance, durability, node.clock),
            DelayWorkload(history.part(), chance, durability, node.clock),
            BankWorkload(history.part(), chance, durability),
            GroupWorkload(history.part(), chance, durability),
            CatalogueWorkload(history.part(), chance),
            RedriveWorkload(history.part(), chance, durability),
            ScheduleWorkload(history.part(), chance, durability, node.clock),
            TableWorkload(history.part(), chance, durability),
        ]
        chosen = [kind for name, kind in zip(WORKLOADS, kinds, strict=True) if name in names]
        count = min(len(chosen), chance.choice([1, 2, 3]))
        found += [(node.name, kind) for kind in chance.sample(chosen, count)]
    return found
