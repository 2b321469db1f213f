"""From messages that a group gives up to the moves that carry them away. Pure."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple, Protocol

import msgspec

from quiver.model.names import TopicPartition
from quiver.outbox.outbox import Move, Outbox, Target
from quiver.partition.partition import Partition
from quiver.queues.journal.events import Died
from quiver.queues.state.port import Dead

MOVE_MESSAGES = 1_000


class MoveSource(NamedTuple):
    """Where messages are moved away from."""

    place: TopicPartition
    partition: Partition


class MoveCarrier(Protocol):
    async def carry(self, source: MoveSource, move: Move) -> None:
        """Carries out a move, maybe not for the first time; raises QuiverError when it has to be tried again."""
        ...


def begin_moves(group_id: int, dead: Sequence[Dead], outbox: Outbox, partition: int) -> list[Died]:
    """One event and one move for every thousand messages of a level."""
    events: list[Died] = []
    for batch in _batches(dead):
        count = sum(each.end - each.start for each in batch)
        content = [group_id, msgspec.to_builtins(batch)]
        move = outbox.begin(Target(0, partition), count, content)
        events.append(Died(group_id, batch, [move]))
    return events


def moves_of(events: Sequence[Died]) -> list[Move]:
    return [move for event in events for move in event.moves]


def _batches(dead: Sequence[Dead]) -> Iterator[list[Dead]]:
    for level in sorted({each.level for each in dead}):
        batch: list[Dead] = []
        room = MOVE_MESSAGES
        for each in dead:
            start = each.start if each.level == level else each.end
            while start < each.end:
                end = min(each.end, start + room)
                batch.append(msgspec.structs.replace(each, start=start, end=end))
                room -= end - start
                start = end
                if not room:
                    yield batch
                    batch, room = [], MOVE_MESSAGES
        if batch:
            yield batch
