"""The partitions of a member: added, being read, being revoked. Pure but for a mutex."""

import threading
from collections.abc import Iterable, Sequence

from quiver.client.read.cursor import Cursor
from quiver.client.read.partition_source import PartitionKey, PartitionSource
from quiver.client.stream.current_batch import CurrentBatch
from quiver.protocol.group_messages import MemberAssignment


class Assignment:
    """Shared by the reader of the messages and the heartbeats, which are two threads or tasks.

    The partition of the current batch is given up by the reader once it is done with the message; all others may be
    given up at any time. A partition that is being revoked (`stop_revoked`, then `mark_for_release`) can still be
    committed, and cannot be assigned again, until the broker knows that it was given up (`released`).
    """

    def __init__(self) -> None:
        self._mutex = threading.Lock()
        self._sources: dict[PartitionKey, PartitionSource] = {}
        self._current: CurrentBatch | None = None
        self._added: list[PartitionSource] = []
        self._revoking: dict[PartitionKey, PartitionSource] = {}
        self._releasing: dict[PartitionKey, PartitionSource] = {}
        self._marked: set[PartitionKey] = set()
        self._unknown_revoked: set[PartitionKey] = set()
        self._lost: list[PartitionSource] = []
        self._version = -1

    # what the broker says

    def apply(self, answer: MemberAssignment) -> None:
        """Applies a response of the broker; one older than the last is ignored."""
        with self._mutex:
            if answer.version < self._version:
                return
            self._version = answer.version
            assigned = {(part.topic_id, part.partition): part for part in answer.assigned}
            revoke = set(answer.revoke)
            self._lose(key for key in self._sources if key not in assigned and key not in revoke)
            self._revoking = {key: source for key, source in self._sources.items() if key in revoke}
            self._unknown_revoked = {key for key in revoke if key not in self._sources and key not in self._releasing}
            for key, part in assigned.items():
                if key not in self._sources and key not in self._releasing:
                    source = PartitionSource(part.topic_id, part.topic, part.partition, part.offset)
                    self._sources[key] = source
                    self._added.append(source)

    def take_added(self) -> list[PartitionSource]:
        """Partitions to begin reading."""
        with self._mutex:
            added, self._added = self._added, []
            return [source for source in added if not source.is_gone]

    def take_lost(self) -> list[PartitionSource]:
        """Partitions that were lost without being revoked: their topic was deleted."""
        with self._mutex:
            lost, self._lost = self._lost, []
            return lost

    # what the reader processes

    def begin(self, current: CurrentBatch) -> bool:
        """Makes a batch the current one; False if the reader must not process it, or not now."""
        with self._mutex:
            source = current.source
            if source.is_gone or source.key in self._revoking or current.cursor is not source.cursor:
                return False
            if source.is_paused:
                source.rewind()
                return False
            self._current = current
            return True

    def finish(self, *, done: bool = True) -> CurrentBatch | None:
        """The reader has processed the current batch; returns what was taken back from it."""
        with self._mutex:
            current, self._current = self._current, None
            if current is None:
                return None
            current.take_back()
            _note(current, done)
            return current.rest()

    def skip_to(self, source: PartitionSource, cursor: Cursor, end: int) -> None:
        """There is nothing to process up to an offset, and the reader has processed everything before it."""
        with self._mutex:
            if cursor is source.cursor:
                source.position = max(source.position, end)

    def note_progress(self, *, done: bool = False) -> None:
        """Updates the position to what was handed out so far."""
        with self._mutex:
            if self._current is not None:
                _note(self._current, done)

    def interrupt(self) -> None:
        """Ends the current batch after the current message."""
        with self._mutex:
            if self._current is not None:
                self._current.take_back()

    def pause(self, source: PartitionSource) -> None:
        with self._mutex:
            source.is_paused = True
            if self._current is not None and self._current.source is source:
                self._current.take_back()

    def seek(self, source: PartitionSource, offset: int) -> None:
        with self._mutex:
            if self._current is not None and self._current.source is source:
                self._current.take_back()
            source.move_to(offset)

    def rewind(self) -> None:
        """Every partition continues at its last commit or seek."""
        with self._mutex:
            if self._current is not None:
                self._current.take_back()
            for source in self._sources.values():
                source.go_back()

    # what is revoked

    def stop_revoked(self) -> list[PartitionSource]:
        """Stops reading the revoked partitions that are not being processed, and returns them."""
        with self._mutex:
            busy = None if self._current is None else self._current.source
            ready = [source for source in self._revoking.values() if source is not busy]
            for source in ready:
                source.is_gone = True
                self._releasing[source.key] = source
                del self._revoking[source.key], self._sources[source.key]
            return ready

    def mark_for_release(self, sources: Iterable[PartitionSource]) -> None:
        """Everything is done for partitions that were stopped: the broker can be told."""
        with self._mutex:
            self._marked.update(source.key for source in sources)

    def to_release(self) -> tuple[list[PartitionKey], list[PartitionSource]]:
        """What to tell the broker, and which of these partitions were read here."""
        with self._mutex:
            sources = [self._releasing[key] for key in self._marked if key in self._releasing]
            return [*self._marked, *self._unknown_revoked], sources

    def released(self, keys: Iterable[PartitionKey]) -> None:
        """The broker knows that they were given up."""
        with self._mutex:
            for key in keys:
                self._releasing.pop(key, None)
                self._marked.discard(key)
                self._unknown_revoked.discard(key)

    @property
    def is_revoking(self) -> bool:
        """Whether the revocation of a partition is not finished."""
        with self._mutex:
            return bool(self._revoking or self._releasing)

    def lose_all(self) -> list[PartitionSource]:
        with self._mutex:
            self._lose(list(self._sources))
            lost = [*self._lost, *self._releasing.values()]
            for state in (self._revoking, self._releasing, self._marked, self._unknown_revoked, self._lost):
                state.clear()
            return lost

    # what there is

    def reading(self) -> list[PartitionSource]:
        """What is being read."""
        with self._mutex:
            return list(self._sources.values())

    def committable(self) -> list[PartitionSource]:
        """What can be committed, including what is being revoked."""
        with self._mutex:
            return [*self._sources.values(), *self._releasing.values()]

    def find(self, topic: str, partition: int) -> PartitionSource | None:
        found = (s for s in self.reading() if s.topic == topic and s.partition == partition)
        return next(found, None)

    def _lose(self, keys: Iterable[PartitionKey]) -> None:
        for key in list(keys):
            source = self._sources.pop(key)
            source.is_gone = True
            self._lost.append(source)


def _note(current: CurrentBatch, done: bool) -> None:
    """A position that was moved since then is left alone."""
    position = current.position(done=done)
    if position is not None and current.cursor is current.source.cursor:
        current.source.position = max(current.source.position, position)


def named(sources: Sequence[PartitionSource]) -> list[tuple[str, int]]:
    return sorted((source.topic, source.partition) for source in sources)


def listed(sources: Sequence[PartitionSource]) -> str:
    """For log lines."""
    return ", ".join(f"{topic}-{partition}" for topic, partition in named(sources))
