"""Two counters that are easily taken for each other: of a process's starts, and of a unit's leaders."""

from typing import NewType

StartEpoch = NewType("StartEpoch", int)
"""Rises with every start of a process on its data. Ids that must be unique per process (leases) contain it."""
LeaderEpoch = NewType("LeaderEpoch", int)
"""Rises whenever a unit (a partition with its logs, or a journal) gets a leader. Frames carry it, and logs refuse an
older one."""


def sole_leader_epoch(start: StartEpoch) -> LeaderEpoch:
    """Of every unit, where one process has a data directory to itself: it leads them all from its start on."""
    return LeaderEpoch(start)
