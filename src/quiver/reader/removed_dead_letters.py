"""Which dead letters were redriven or purged, according to a delivery journal. Pure."""

from quiver.queues.journal.events import DeadLettersRemoved
from quiver.queues.journal.recorder import decode_record
from quiver.queues.journal.snapshot import restored
from quiver.structures.interval_set import IntervalSet


class RemovedDeadLetters:
    """Takes the journal of one partition of a dead-letter topic, in order."""

    def __init__(self) -> None:
        self.offsets = IntervalSet()

    def restore(self, snapshot: bytes) -> None:
        for start, stop in restored(snapshot).removed:
            self.offsets.add(start, stop)

    def apply(self, record: bytes) -> None:
        for event in decode_record(record):
            if isinstance(event, DeadLettersRemoved):
                for start, stop in event.runs:
                    self.offsets.add(start, stop)
