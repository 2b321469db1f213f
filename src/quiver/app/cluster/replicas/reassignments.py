"""Reassignments of replicas that operators begin, follow and cancel."""

from collections.abc import Mapping, Sequence

import msgspec

from quiver.app.cluster.replicas.replica_sets import ReplicaSets, Units, names, shown_replicas
from quiver.broker.members import ReassignmentOptions, ReassignmentProgress, UnitMove
from quiver.cluster.controller import Nodes, begin_reassignment
from quiver.cluster.membership.reassignment_records import ReassignmentRecords
from quiver.cluster.reassignments import (
    Reassignment,
    State,
    UnitTarget,
    ended,
    replicas_before,
    running_units,
    same_running,
    state_of,
    unit_state,
)
from quiver.coordination.port import Coordination, Operation
from quiver.model.errors import ReassignmentNotFound
from quiver.system.clock import Clock


class Reassignments:
    def __init__(
        self, records: ReassignmentRecords, replica_sets: ReplicaSets, coordination: Coordination, clock: Clock
    ) -> None:
        self._records, self._replica_sets = records, replica_sets
        self._coordination, self._clock = coordination, clock
        replica_sets.also = self._notes

    def all(self) -> list[ReassignmentProgress]:
        """The newest first."""
        return [self._progress(record) for _, record in sorted(self._records.all.items(), reverse=True)]

    def get(self, number: int) -> ReassignmentProgress:
        return self._progress(self._record(number))

    async def begin(
        self, targets: Mapping[int, Sequence[str]], options: ReassignmentOptions, *, dry_run: bool
    ) -> ReassignmentProgress:
        """Gives workers other replicas, all in one write, the preferred leader first. The list from before cancels
        what goes on; the same list again gives what goes on another limit, or another timeout."""
        new = Reassignment(number=0, started_ms=0, units={})

        def plan(units: Units, nodes: Nodes) -> Units:
            nonlocal new
            found = {
                worker: self._replica_sets.target(worker, each, units, nodes) for worker, each in targets.items()
            }
            same = same_running(found, self._records.running, units)
            new = self._new(found, units, options) if same is None else _with_options(same, options)
            throttle = options.throttle_bytes_per_sec
            return {
                worker: begin_reassignment(units[worker], target, throttle_bytes_per_sec=throttle)
                for worker, target in found.items()
            }

        planned = self._replica_sets.planned(plan)
        if dry_run:
            return self._progress(msgspec.structs.replace(new, number=0), planned)
        lease_id = await self._coordination.grant_lease(options.timeout_ms) if options.timeout_ms else 0
        planned = await self._replica_sets.change(plan, lambda: self._records.writes({new.number: new}, lease_id))
        return self._progress(new, planned)

    def _new(
        self, targets: Mapping[int, tuple[int, ...]], units: Units, options: ReassignmentOptions
    ) -> Reassignment:
        running = self._records.running
        return Reassignment(
            number=self._records.next_number,
            started_ms=self._clock.now_ms(),
            units={
                worker: UnitTarget(replicas=target, before=replicas_before(worker, units[worker], running))
                for worker, target in targets.items()
            },
            throttle_bytes_per_sec=options.throttle_bytes_per_sec,
            timeout_ms=options.timeout_ms,
        )

    async def cancel(self, number: int) -> ReassignmentProgress:
        """Units on their way go back to the replicas from before. One that has ended stays as it is."""
        self._record(number)
        await self._end([number], "cancelled")
        return self.get(number)

    async def look(self) -> None:
        """What the controller does: notes what has ended, and ends what has taken too long."""
        units = self._replica_sets.units
        late = [record.number for record in self._records.late(units)]
        if late:
            await self._end(late, "timed_out")
        elif self._records.notes(units, 0):
            await self._replica_sets.change(lambda units, nodes: {})

    async def _end(self, numbers: Sequence[int], outcome: State) -> None:
        def plan(units: Units, nodes: Nodes) -> Units:
            return {
                worker: begin_reassignment(units[worker], record.units[worker].before)
                for record in self._open(numbers)
                for worker in running_units(record, units)
            }

        def also() -> list[Operation]:
            units, now_ms = self._replica_sets.units, self._clock.now_ms()
            return self._records.writes(
                {each.number: ended(each, units, outcome, now_ms) for each in self._open(numbers)}
            )

        await self._replica_sets.change(plan, also)

    def _open(self, numbers: Sequence[int]) -> list[Reassignment]:
        return [each for each in map(self._records.all.get, numbers) if each is not None and not each.has_ended]

    def _notes(self) -> list[Operation]:
        return self._records.writes(self._records.notes(self._replica_sets.units, self._clock.now_ms()))

    def _record(self, number: int) -> Reassignment:
        record = self._records.all.get(number)
        if record is None:
            raise ReassignmentNotFound(reassignment=number)
        return record

    def _progress(self, record: Reassignment, planned: Units | None = None) -> ReassignmentProgress:
        """`planned`: units that the view does not show yet."""
        sets, units = self._replica_sets.all(), {**self._replica_sets.units, **(planned or {})}
        sets |= {worker: shown_replicas(unit, {}) for worker, unit in (planned or {}).items()}
        return ReassignmentProgress(
            record.number,
            state_of(record, units),
            [
                UnitMove(
                    worker,
                    unit_state(target, units.get(worker)),
                    names(target.replicas),
                    names(target.before),
                    sets.get(worker),
                )
                for worker, target in sorted(record.units.items())
            ],
            record.started_ms,
            record.ended_ms,
            ReassignmentOptions(record.throttle_bytes_per_sec, record.timeout_ms),
        )


def _with_options(record: Reassignment, options: ReassignmentOptions) -> Reassignment:
    """A timeout that is not given stays as it is."""
    return msgspec.structs.replace(
        record,
        throttle_bytes_per_sec=options.throttle_bytes_per_sec,
        timeout_ms=options.timeout_ms or record.timeout_ms,
    )
