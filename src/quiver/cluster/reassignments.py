"""Reassignments that operators have begun, and what became of their units. Pure.

A unit itself says where it is on its way to; a record says who wanted that, and keeps the outcome.
"""

from collections.abc import Iterable, Mapping
from typing import Literal

import msgspec

from quiver.replication.unit import Unit

KEPT = 50
"""Reassignments that are remembered, with those that go on."""
State = Literal["running", "done", "cancelled", "timed_out", "replaced"]
Units = Mapping[int, Unit]


class UnitTarget(msgspec.Struct, frozen=True, kw_only=True):
    """Of one unit: nodes, the preferred leader first."""

    replicas: tuple[int, ...]
    before: tuple[int, ...]
    """Where it goes back to when it is cancelled."""
    outcome: State = "running"
    """As far as it is noted."""


class Reassignment(msgspec.Struct, frozen=True, kw_only=True):
    number: int
    started_ms: int
    units: dict[int, UnitTarget]
    """By worker."""
    throttle_bytes_per_sec: int = 0
    timeout_ms: int = 0
    """0: it may take as long as it takes."""
    ended_ms: int = 0

    @property
    def has_ended(self) -> bool:
        return self.ended_ms > 0


def final_replicas(unit: Unit) -> tuple[int, ...]:
    """Who has replicas when the unit's reassignment is done."""
    return tuple(node for node in unit.replicas if node not in unit.removing)


def unit_state(target: UnitTarget, unit: Unit | None) -> State:
    """What has been noted counts: a unit may have got another target since."""
    if target.outcome != "running":
        return target.outcome
    if unit is None or final_replicas(unit) != target.replicas:
        return "replaced"
    return "running" if unit.adding or unit.removing else "done"


def state_of(record: Reassignment, units: Units) -> State:
    """That of its units, the one that says most about what is missing."""
    states = {unit_state(target, units.get(worker)) for worker, target in record.units.items()}
    order: tuple[State, ...] = ("running", "timed_out", "cancelled", "replaced", "done")
    return next((state for state in order if state in states), "done")


def noted(record: Reassignment, units: Units, now_ms: int) -> Reassignment:
    """With the outcome of each unit that has one; the same if there is nothing new."""
    return _with_outcomes(
        record, {worker: unit_state(target, units.get(worker)) for worker, target in record.units.items()}, now_ms
    )


def ended(record: Reassignment, units: Units, outcome: State, now_ms: int) -> Reassignment:
    """With this outcome for all units that are on their way."""
    states = {worker: unit_state(target, units.get(worker)) for worker, target in record.units.items()}
    return _with_outcomes(
        record, {worker: outcome if state == "running" else state for worker, state in states.items()}, now_ms
    )


def running_units(record: Reassignment, units: Units) -> list[int]:
    """Workers on their way."""
    return [worker for worker, target in record.units.items() if unit_state(target, units.get(worker)) == "running"]


def same_running(
    targets: Mapping[int, tuple[int, ...]], records: Iterable[Reassignment], units: Units
) -> Reassignment | None:
    """The one whose units on their way are asked for again, with the same targets: then only its options change."""
    for record in records:
        running = running_units(record, units)
        is_whole = running and set(running) <= targets.keys() <= record.units.keys()
        if is_whole and all(record.units[worker].replicas == target for worker, target in targets.items()):
            return record
    return None


def replicas_before(worker: int, unit: Unit, records: Iterable[Reassignment]) -> tuple[int, ...]:
    """Where a unit would go back to: if it is on its way, to where it came from."""
    for record in records:
        target = record.units.get(worker)
        if target is not None and unit_state(target, unit) == "running":
            return target.before
    return tuple(node for node in unit.replicas if node not in unit.adding) if unit.adding else final_replicas(unit)


def surplus(records: Mapping[int, Reassignment]) -> list[int]:
    """Numbers of those that are forgotten: the oldest that have ended."""
    return [number for number in sorted(records)[: max(0, len(records) - KEPT)] if records[number].has_ended]


def _with_outcomes(record: Reassignment, outcomes: Mapping[int, State], now_ms: int) -> Reassignment:
    if all(outcomes[worker] == target.outcome for worker, target in record.units.items()) and (
        record.has_ended or "running" in outcomes.values()
    ):
        return record
    units = {
        worker: msgspec.structs.replace(target, outcome=outcomes[worker]) for worker, target in record.units.items()
    }
    ended_ms = 0 if "running" in outcomes.values() else now_ms
    return msgspec.structs.replace(record, units=units, ended_ms=ended_ms)
