"""The partitions a member holds: what came, what must go, what is being worked on. Pure but for a mutex."""

import threading
from collections.abc import Iterable, Sequence

from quiver.client.read.cursor import Cursor
from quiver.client.read.partition_source import PartitionKey, PartitionSource
from quiver.client.stream.current_batch import Hand
from quiver.protocol.group_messages import MemberAssignment


class Holdings:
    """Shared by the reader of the messages and the member's heart, which are two threads or tasks.

    A partition whose message is in the reader's hands is let go of by the reader, when it is done with the message;
    all others may be let go of at any time. A partition on its way out (`let_go`, then `give_up`) can be committed,
    and cannot come back, until the broker has heard that it is let go of (`released`).
    """

    def __init__(self) -> None:
        self._mutex = threading.Lock()
        self._sources: dict[PartitionKey, PartitionSource] = {}
        self._hand: Hand | None = None
        self._arrived: list[PartitionSource] = []
        self._leaving: dict[PartitionKey, PartitionSource] = {}
        self._going: dict[PartitionKey, PartitionSource] = {}
        self._given_up: set[PartitionKey] = set()
        self._unseen: set[PartitionKey] = set()
        self._lost: list[PartitionSource] = []
        self._version = -1

    # what the broker says

    def adopt(self, answer: MemberAssignment) -> None:
        """Takes over what the broker says; an answer older than the last is ignored."""
        with self._mutex:
            if answer.version < self._version:
                return
            self._version = answer.version
            assigned = {(part.topic_id, part.partition): part for part in answer.assigned}
            revoke = set(answer.revoke)
            self._lose(key for key in self._sources if key not in assigned and key not in revoke)
            self._leaving = {key: source for key, source in self._sources.items() if key in revoke}
            self._unseen = {key for key in revoke if key not in self._sources and key not in self._going}
            for key, part in assigned.items():
                if key not in self._sources and key not in self._going:
                    source = PartitionSource(part.topic_id, part.topic, part.partition, part.offset)
                    self._sources[key] = source
                    self._arrived.append(source)

    def take_arrived(self) -> list[PartitionSource]:
        """Partitions to begin reading."""
        with self._mutex:
            arrived, self._arrived = self._arrived, []
            return [source for source in arrived if not source.is_gone]

    def take_lost(self) -> list[PartitionSource]:
        """Partitions that went without being let go of: their topic was deleted."""
        with self._mutex:
            lost, self._lost = self._lost, []
            return lost

    # what the reader works on

    def pick_up(self, hand: Hand) -> bool:
        """The reader is about to work on messages of a partition; False when it must not, or not now."""
        with self._mutex:
            source = hand.source
            if source.is_gone or source.key in self._leaving or hand.cursor is not source.cursor:
                return False
            if source.is_paused:
                source.rewind()
                return False
            self._hand = hand
            return True

    def put_down(self, *, done: bool = True) -> Hand | None:
        """The reader has nothing in its hands; returns what was taken back from it."""
        with self._mutex:
            hand, self._hand = self._hand, None
            if hand is None:
                return None
            hand.take_back()
            _note(hand, done)
            return hand.rest()

    def pass_over(self, source: PartitionSource, cursor: Cursor, end: int) -> None:
        """There is nothing to process up to an offset, and the reader is done with everything in front of it."""
        with self._mutex:
            if cursor is source.cursor:
                source.position = max(source.position, end)

    def note_progress(self, *, done: bool = False) -> None:
        """Brings the position up to date for what has gone out so far."""
        with self._mutex:
            if self._hand is not None:
                _note(self._hand, done)

    def interrupt(self) -> None:
        """Makes the reader look up after the message at hand."""
        with self._mutex:
            if self._hand is not None:
                self._hand.take_back()

    def pause(self, source: PartitionSource) -> None:
        with self._mutex:
            source.is_paused = True
            if self._hand is not None and self._hand.source is source:
                self._hand.take_back()

    def seek(self, source: PartitionSource, offset: int) -> None:
        with self._mutex:
            if self._hand is not None and self._hand.source is source:
                self._hand.take_back()
            source.move_to(offset)

    def rewind(self) -> None:
        """Everything goes on where the last commit, or move, left it."""
        with self._mutex:
            if self._hand is not None:
                self._hand.take_back()
            for source in self._sources.values():
                source.go_back()

    # what goes

    def let_go(self) -> list[PartitionSource]:
        """Partitions that must go and are not being worked on: from now on nobody reads them here."""
        with self._mutex:
            in_hand = None if self._hand is None else self._hand.source
            ready = [source for source in self._leaving.values() if source is not in_hand]
            for source in ready:
                source.is_gone = True
                self._going[source.key] = source
                del self._leaving[source.key], self._sources[source.key]
            return ready

    def give_up(self, sources: Iterable[PartitionSource]) -> None:
        """Nothing more is to be done here for partitions that were let go of: the broker can be told."""
        with self._mutex:
            self._given_up.update(source.key for source in sources)

    def to_release(self) -> tuple[list[PartitionKey], list[PartitionSource]]:
        """What the broker is to be told, and the partitions among it that were read here."""
        with self._mutex:
            sources = [self._going[key] for key in self._given_up if key in self._going]
            return [*self._given_up, *self._unseen], sources

    def released(self, keys: Iterable[PartitionKey]) -> None:
        """The broker has heard."""
        with self._mutex:
            for key in keys:
                self._going.pop(key, None)
                self._given_up.discard(key)
                self._unseen.discard(key)

    @property
    def is_busy(self) -> bool:
        """Whether a partition that must go is still being worked on."""
        with self._mutex:
            return bool(self._leaving or self._going)

    def lose_all(self) -> list[PartitionSource]:
        with self._mutex:
            self._lose(list(self._sources))
            lost = [*self._lost, *self._going.values()]
            for state in (self._leaving, self._going, self._given_up, self._unseen, self._lost):
                state.clear()
            return lost

    # what there is

    def current(self) -> list[PartitionSource]:
        """What is being read."""
        with self._mutex:
            return list(self._sources.values())

    def held(self) -> list[PartitionSource]:
        """What can be committed: also what is on its way out."""
        with self._mutex:
            return [*self._sources.values(), *self._going.values()]

    def find(self, topic: str, partition: int) -> PartitionSource | None:
        found = (s for s in self.current() if s.topic == topic and s.partition == partition)
        return next(found, None)

    def _lose(self, keys: Iterable[PartitionKey]) -> None:
        for key in list(keys):
            source = self._sources.pop(key)
            source.is_gone = True
            self._lost.append(source)


def _note(hand: Hand, done: bool) -> None:
    """A position that was moved since then is left alone."""
    position = hand.position(done=done)
    if position is not None and hand.cursor is hand.source.cursor:
        hand.source.position = max(hand.source.position, position)


def named(sources: Sequence[PartitionSource]) -> list[tuple[str, int]]:
    return sorted((source.topic, source.partition) for source in sources)


def listed(sources: Sequence[PartitionSource]) -> str:
    """For log lines."""
    return ", ".join(f"{topic}-{partition}" for topic, partition in named(sources))
