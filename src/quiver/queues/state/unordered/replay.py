"""Events of the journal, applied to the unsettled messages of an unordered group. Pure.

A snapshot may be ahead of the events behind it. So an event says what becomes of the messages it names whatever they
are now; those that a later lease has are left to the later events.
"""

import msgspec

from quiver.queues.journal.events import Acked, Died, Extended, Leased, LeasedRun, Returned
from quiver.queues.state.unordered.in_flight import Ledger
from quiver.queues.state.unordered.in_flight_run import LEASED, WAITING, Entry


def replay(ledger: Ledger, event: msgspec.Struct) -> None:
    match event:
        case Leased():
            for run in event.runs:
                _lease(ledger, event, run)
        case Acked():
            for start, end in event.runs:
                _cut_of_lease(ledger, event.lease, start, end)
        case Returned():
            for given in event.runs:
                for part in _cut_of_lease(ledger, event.lease, given.start, given.end):
                    part.state, part.time_ms = WAITING, given.due_ms
                    part.attempts, part.error = given.attempts, event.error or part.error
                    ledger.put(part)
        case Extended():
            for start, end in event.runs:
                for part in _cut_of_lease(ledger, event.lease, start, end):
                    part.state, part.time_ms = LEASED, event.deadline_ms
                    ledger.put(part)
        case Died():
            for dead in event.dead:
                ledger.cut_all(dead.start, dead.end)


def _lease(ledger: Ledger, event: Leased, run: LeasedRun) -> None:
    before = ledger.cut_all(run.start, run.end)
    error = ""
    if before:
        error = before[0].error if before[0].lease == event.lease else before[0].last_error
    entry = Entry(
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
    ledger.put(entry)


def _cut_of_lease(ledger: Ledger, lease: int, start: int, end: int) -> list[Entry]:
    found = ledger.unsettled.overlapping(start, end)
    return [ledger.cut(entry, start, end) for entry in found if entry.lease == lease]
