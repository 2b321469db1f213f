"""When stream groups committed which messages, from their journal, as far back as it goes. Pure.

A commit names the next offset to read. So everything from the position before to that offset was processed by then.
"""

from collections.abc import Collection

import msgspec

from quiver.model.names import TopicPartition
from quiver.reader.delivery_history import UNKNOWN, Acknowledged
from quiver.streams.events import Event, OffsetsCommitted, OffsetsForgotten

_EVENT = msgspec.json.Decoder(Event)


class CommitHistory:
    """Takes the records of the journal in order; the first position that it sees of a group counts for nothing."""

    def __init__(self, groups: Collection[int] | None = None) -> None:
        self._groups = groups
        self._positions: dict[tuple[int, TopicPartition], int] = {}
        self.commits: dict[TopicPartition, list[Acknowledged]] = {}

    def apply_record(self, record: bytes) -> None:
        event = _EVENT.decode(record)
        if self._groups is not None and event.group_id not in self._groups:
            return
        match event:
            case OffsetsCommitted():
                self._commit(event)
            case OffsetsForgotten():
                for place in [each for each in self._positions if each[1].topic_id == event.topic_id]:
                    if place[0] == event.group_id:
                        del self._positions[place]

    def _commit(self, event: OffsetsCommitted) -> None:
        for partition, committed in event.offsets:
            place = (event.group_id, TopicPartition(*partition))
            before = self._positions.get(place)
            if before is not None and event.is_first:
                continue
            self._positions[place] = committed.offset
            if before is not None and before < committed.offset:
                fact = Acknowledged(event.group_id, before, committed.offset, committed.at_ms, UNKNOWN)
                self.commits.setdefault(place[1], []).append(fact)
