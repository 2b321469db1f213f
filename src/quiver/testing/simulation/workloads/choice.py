"""Which workloads a seed has."""

import random
from collections.abc import Sequence

from quiver.model.topic import Durability
from quiver.testing.simulation.history import History
from quiver.testing.simulation.system.clock import ClockRecord
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


def durability_of(chance: random.Random, *, cuts_power: bool) -> Durability:
    """Durability `interval` may lose the last second in a power cut."""
    return "fsync" if cuts_power else chance.choice(["fsync", "interval"])


def chosen_workloads(
    history: History,
    chance: random.Random,
    durability: Durability,
    clock: ClockRecord,
    names: Sequence[str],
    *,
    replicas: int = 1,
) -> list[Workload]:
    """One to three of those with these names. The clock is that of the brokers, and each message has replicas."""
    kinds: list[Workload] = [
        LogWorkload(history.part(), chance, durability, replicas=replicas),
        QueueWorkload(history.part(), chance, durability, clock),
        DelayWorkload(history.part(), chance, durability, clock),
        BankWorkload(history.part(), chance, durability),
        GroupWorkload(history.part(), chance, durability),
        CatalogueWorkload(history.part(), chance),
        RedriveWorkload(history.part(), chance, durability),
        ScheduleWorkload(history.part(), chance, durability, clock),
        TableWorkload(history.part(), chance, durability),
    ]
    chosen = [kind for name, kind in zip(WORKLOADS, kinds, strict=True) if name in names]
    return chance.sample(chosen, min(len(chosen), chance.choice([1, 2, 3])))
