"""Histories that tests make up, for the checks of the simulator."""

from typing import Any

from quiver.testing.simulation.history import Event, History
from quiver.testing.simulation.workloads.port import Workload


def found(workload: Workload) -> str:
    return "; ".join(violation.sentence for violation in workload.check())


def done(history: History, what: str, actor: str = "somebody", result: Any = None, **details: Any) -> Event:
    event = history.saw(what, actor, **details)
    event.result = result
    return event
