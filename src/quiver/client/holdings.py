"""The partitions a member holds: what came, what must go, what is being worked on. Pure but for a mutex."""

import threading
from collections.abc import Iterable

from quiver.client.partition_source import PartitionKey, PartitionSource
from quiver.protocol.group_messages import MemberAssignment


class Holdings:
    """Shared by the reader of the messages and the member's heart, which are two threads or tasks.

    A partition whose message is in the reader's hands is let go of by the reader, when it is done with the message;
    all others may be let go of at any time.
    """

    def __init__(self) -> None:
        self._mutex = threading.Lock()
        self._sources: dict[PartitionKey, PartitionSource] = {}
        self._in_hand: PartitionSource | None = None
        self._arrived: list[PartitionSource] = []
        self._leaving: dict[PartitionKey, PartitionSource] = {}
        self._version = -1

    def adopt(self, answer: MemberAssignment) -> None:
        """Takes over what the broker says; an answer older than the last is ignored."""
        with self._mutex:
            if answer.version < self._version:
                return
            self._version = answer.version
            assigned = {(part.topic_id, part.partition): part for part in answer.assigned}
            leaving = set(answer.revoke)
            for key in [key for key in self._sources if key not in assigned and key not in leaving]:
                self._sources.pop(key).is_gone = True
            self._leaving = {key: self._sources[key] for key in leaving if key in self._sources}
            for key, part in assigned.items():
                if key not in self._sources:
                    source = PartitionSource(part.topic_id, part.topic, part.partition, part.offset)
                    self._sources[key] = source
                    self._arrived.append(source)

    def take_arrived(self) -> list[PartitionSource]:
        """Partitions to begin reading."""
        with self._mutex:
            arrived, self._arrived = self._arrived, []
            return [source for source in arrived if not source.is_gone]

    def pick_up(self, source: PartitionSource) -> bool:
        """The reader is about to work on a message of a partition; False when it must not any more."""
        with self._mutex:
            if source.is_gone or source.key in self._leaving:
                return False
            self._in_hand = source
            return True

    def put_down(self) -> None:
        """The reader has nothing in its hands."""
        with self._mutex:
            self._in_hand = None

    def let_go(self) -> list[PartitionSource]:
        """Partitions that must go and are not being worked on: from now on nobody reads them here."""
        with self._mutex:
            ready = [source for source in self._leaving.values() if source is not self._in_hand]
            for source in ready:
                source.is_gone = True
                self._sources.pop(source.key, None)
                del self._leaving[source.key]
            return ready

    @property
    def is_busy(self) -> bool:
        """Whether a partition that must go is being worked on."""
        with self._mutex:
            return bool(self._leaving)

    def replace(self, source: PartitionSource) -> None:
        """Puts another source in the place of the one for the same partition."""
        with self._mutex:
            self._sources[source.key] = source
            self._arrived.append(source)

    def current(self) -> list[PartitionSource]:
        with self._mutex:
            return list(self._sources.values())

    def find(self, topic: str, partition: int) -> PartitionSource | None:
        found = (s for s in self.current() if s.topic == topic and s.partition == partition)
        return next(found, None)

    def lose_all(self) -> list[PartitionSource]:
        with self._mutex:
            lost = list(self._sources.values())
            for source in lost:
                source.is_gone = True
            self._sources.clear()
            self._leaving.clear()
            return lost


def named(sources: Iterable[PartitionSource]) -> list[tuple[str, int]]:
    return sorted((source.topic, source.partition) for source in sources)
