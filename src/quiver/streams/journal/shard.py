"""A shard of the journal of stream groups: members and offsets of the groups whose ids belong to it."""

from collections.abc import Callable, Collection, Iterator

import msgspec

from quiver.model.errors import CorruptData
from quiver.storage.journaled_state import EventCodec, JournaledState
from quiver.storage.port import Storage
from quiver.streams.events import Event
from quiver.streams.state import StreamTable
from quiver.system.clock import Clock

_CODEC: EventCodec[Event] = EventCodec(msgspec.json.encode, msgspec.json.Decoder(Event).decode)


def shard_log_id(number: int) -> str:
    return f"internal/streams/{number}"


class StreamShard:
    """`on_applied` is called in the step in which an event is applied, with events of known groups only."""

    def __init__(
        self,
        number: int,
        *,
        clock: Clock,
        is_known: Callable[[int], bool],
        on_applied: Callable[[Event], None],
    ) -> None:
        self.table = StreamTable()
        self.journaled = JournaledState(shard_log_id(number), self, _CODEC, clock=clock)
        self._is_known = is_known
        self._on_applied = on_applied

    async def open(self, storage: Storage, epoch: int, group_ids: Collection[int]) -> CorruptData | None:
        """Forgets all groups but these. Returns what is wrong if the journal is damaged."""
        try:
            await self.journaled.open(storage, epoch)
        except CorruptData as error:
            return error
        self.table.keep(group_ids)
        return None

    # what JournaledState needs of a state machine

    def apply(self, event: Event) -> None:
        if self._is_known(event.group_id):
            self.table.apply(event)
            self._on_applied(event)

    def snapshot(self) -> Iterator[bytes]:
        return self.table.snapshot()

    def restore(self, data: bytes) -> None:
        self.table.restore(data)
