"""The records of reassignments in coordination, and the timers of those that may not take long.

A timer is a key under a lease that nobody keeps alive: coordination removes it when the time is over, so no node's
clock is asked.
"""

from quiver.cluster.membership import records
from quiver.cluster.membership.state import ClusterState
from quiver.cluster.reassignments import Reassignment, Units, noted, running_units, surplus
from quiver.coordination.port import Change, Delete, Operation, Put

PREFIX = "reassignments/"
_TIMERS = "reassignment-timers/"


class ReassignmentRecords:
    """Make it before the view of the state is opened."""

    def __init__(self, state: ClusterState) -> None:
        self.all: dict[int, Reassignment] = {}
        self._timers: set[int] = set()
        self._state = state
        state.view.follow(PREFIX, self._apply)
        state.view.follow(_TIMERS, self._apply_timer)

    @property
    def next_number(self) -> int:
        return max(self.all, default=0) + 1

    @property
    def running(self) -> list[Reassignment]:
        """As far as their ends are noted."""
        return [record for record in self.all.values() if not record.has_ended]

    def late(self, units: Units) -> list[Reassignment]:
        """Whose time is over, and that have units on their way."""
        return [
            record
            for record in self.running
            if record.timeout_ms and record.number not in self._timers and running_units(record, units)
        ]

    def notes(self, units: Units, now_ms: int) -> dict[int, Reassignment]:
        """Records that do not say yet what has become of their units."""
        found = {record.number: noted(record, units, now_ms) for record in self.running}
        return {number: record for number, record in found.items() if record != self.all[number]}

    def writes(self, changed: dict[int, Reassignment], timer_lease_id: int = 0) -> list[Operation]:
        """What makes them so in coordination, and forgets those that are too many. The lease is that of a new
        timer."""
        operations: list[Operation] = []
        for number, record in changed.items():
            operations.append(Put(reassignment_key(number), records.encode(record)))
            if record.has_ended and number in self._timers:
                operations.append(Delete(_timer_key(number)))
            elif timer_lease_id:
                operations.append(Put(_timer_key(number), b"", timer_lease_id))
        forgotten = [number for number in surplus({**self.all, **changed}) if number not in changed]
        return operations + [Delete(reassignment_key(number)) for number in forgotten]

    def _apply(self, change: Change) -> None:
        number = int(change.key.removeprefix(PREFIX))
        if change.value is None:
            self.all.pop(number, None)
        else:
            self.all[number] = records.decode(change.value, Reassignment)
        self._state.wake()

    def _apply_timer(self, change: Change) -> None:
        number = int(change.key.removeprefix(_TIMERS))
        (self._timers.discard if change.value is None else self._timers.add)(number)
        self._state.wake()


def reassignment_key(number: int) -> str:
    return f"{PREFIX}{number}"


def _timer_key(number: int) -> str:
    return f"{_TIMERS}{number}"
