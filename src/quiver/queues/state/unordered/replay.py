"""Events of the journal, applied to the unsettled messages of an unordered group. Pure.

A snapshot may be ahead of the events after it. So an event says what becomes of the messages it names whatever they
are now; those that a later lease has are left to the later events.
"""

import msgspec

from quiver.queues.journal.events import Acked, Died, Extended, Leased, LeasedRun, Returned
from quiver.queues.state.unordered.in_flight import LEASED, WAITING, InFlight, InFlightRun


def replay(in_flight: InFlight, event: msgspec.Struct) -> None:
    match event:
        case Leased():
            for run in event.runs:
                _lease(in_flight, event, run)
        case Acked():
            for start, end in event.runs:
                _cut_of_lease(in_flight, event.lease, start, end)
        case Returned():
            for given in event.runs:
                for part in _cut_of_lease(in_flight, event.lease, given.start, given.end):
                    part.state, part.time_ms = WAITING, given.due_ms
                    part.attempts, part.error = given.attempts, event.error or part.error
                    in_flight.put(part)
        case Extended():
            for start, end in event.runs:
                for part in _cut_of_lease(in_flight, event.lease, start, end):
                    part.state, part.time_ms = LEASED, event.deadline_ms
                    in_flight.put(part)
        case Died():
            for dead in event.dead:
                in_flight.cut_all(dead.start, dead.end)


def _lease(in_flight: InFlight, event: Leased, run: LeasedRun) -> None:
    before = in_flight.cut_all(run.start, run.end)
    error = ""
    if before:
        error = before[0].error if before[0].lease == event.lease else before[0].last_error
    entry = InFlightRun(
        run.start,
        run.end,
        run.level,
        run.attempt,
        run.first_delivered_ms,
        LEASED,
        event.deadline_ms,
        event.lease,
        event.consumer,
        error,
    )
    in_flight.put(entry)


def _cut_of_lease(in_flight: InFlight, lease: int, start: int, end: int) -> list[InFlightRun]:
    found = in_flight.unsettled.overlapping(start, end)
    return [in_flight.cut(entry, start, end) for entry in found if entry.lease == lease]
