"""The outbox of one source: which messages move to which log, and with which sequence number.

A move is decided in the source's journal first: from then on its messages are settled at the source. Then they are
appended to the target as one frame with the source's own producer id (`mover_id`) and the move's sequence. Last, the
journal records that the move is done. After a crash every open move is carried out again, and the target recognises
what it has already. Sequences count messages per target. Pure.
"""

from typing import Any, Literal, NamedTuple

import msgspec

from quiver.model.limits import SEQUENCE_LIMIT
from quiver.partition.producers import FIRST_RELAY_ID

Purpose = Literal["dead_letters", "delays", "redrive", "schedules"]
_PURPOSES: dict[Purpose, int] = {"dead_letters": 0, "delays": 1, "redrive": 2, "schedules": 3}


class Target(NamedTuple):
    topic_id: int
    """0 is the dead-letter topic of the source's own topic, which may not exist yet."""
    partition: int


class Move(msgspec.Struct, frozen=True, array_like=True):
    id: int
    """Rises with each move of a source."""
    target: Target
    sequence: int
    count: int
    content: Any
    """What is moved, as the source describes it: plain lists, numbers, strings and bytes."""


def mover_id(purpose: Purpose, topic_id: int, partition: int) -> int:
    """The producer id with which a partition moves messages elsewhere."""
    return FIRST_RELAY_ID | topic_id << 18 | partition << 2 | _PURPOSES[purpose]


def source_of(producer_id: int) -> tuple[Purpose, int, int] | None:
    """What a `mover_id` says: the purpose, and topic id and partition of the source. None for a producer's own id."""
    if producer_id < FIRST_RELAY_ID:
        return None
    place = producer_id - FIRST_RELAY_ID
    purpose = next(name for name, number in _PURPOSES.items() if number == place & 3)
    return purpose, place >> 18, place >> 2 & 0xFFFF


class Outbox:
    """Changes take effect immediately; the owner writes them to the journal: `begin` as its move, `done` as its id.

    The same changes are replayed at start-up with `restore`, `begun` and `done`; replaying one twice changes nothing.
    """

    def __init__(self) -> None:
        self.open: dict[int, Move] = {}
        """By id, in the order in which they began."""
        self._next_id = 1
        self._moved: dict[Target, int] = {}

    def begin(self, target: Target, count: int, content: Any) -> Move:
        move = Move(self._next_id, target, self._moved.get(target, 0), count, content)
        self.begun(move)
        return move

    def begun(self, move: Move) -> bool:
        """At start-up: a move from the journal. One that is known already, done or not, stays as it is.

        Returns whether it is new.
        """
        if move.id < self._next_id:
            return False
        self._next_id = move.id + 1
        self._moved[move.target] = (move.sequence + move.count) % SEQUENCE_LIMIT
        self.open[move.id] = move
        return True

    def take_back(self, move: Move) -> None:
        """The move could not be written. Its id is never used again: somebody may still have the move and ask for it
        by its id. Its sequence stays unused if others to its target were begun since."""
        self.open.pop(move.id)
        if self._moved[move.target] == (move.sequence + move.count) % SEQUENCE_LIMIT:
            self._moved[move.target] = move.sequence

    def done(self, move_id: int) -> None:
        self.open.pop(move_id, None)

    def image(self) -> Any:
        """Plain data for a snapshot."""
        return [self._next_id, [[*target, count] for target, count in self._moved.items()], list(self.open.values())]

    def restore(self, image: Any) -> None:
        self._next_id, moved, moves = image
        self._moved = {Target(topic_id, partition): count for topic_id, partition, count in moved}
        self.open = {move.id: move for move in msgspec.convert(moves, list[Move])}
