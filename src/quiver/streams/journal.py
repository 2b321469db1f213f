"""The journal of stream groups: members and offsets of every group that `quiver.groups` knows.

A group's definition is on disk before the first record here, and is deleted before what is here is forgotten. So a
record of a group that is not known (any more) is ignored, both at start-up and while the broker runs.
"""

import logging
from collections.abc import Callable, Iterator, Mapping

import msgspec

from quiver.groups.service import Groups
from quiver.model.errors import CorruptData, QuiverError, ShuttingDown
from quiver.storage.journaled_state import EventCodec, JournaledState
from quiver.storage.port import Storage
from quiver.streams.events import Event
from quiver.streams.state import StreamGroup, StreamTable
from quiver.system.clock import Clock

logger = logging.getLogger(__name__)

LOG_ID = "internal/streams"
_CODEC: EventCodec[Event] = EventCodec(msgspec.json.encode, msgspec.json.Decoder(Event).decode)


class StreamJournal:
    def __init__(self, groups: Groups, *, clock: Clock) -> None:
        self._groups = groups
        self._table = StreamTable()
        self._journaled = JournaledState(LOG_ID, self, _CODEC, clock=clock)
        self._subscribers: list[Callable[[Event], None]] = []
        self._is_closing = False

    def subscribe(self, on_applied: Callable[[Event], None]) -> None:
        """Called in the step in which an event is applied, so nobody sees the event without its consequences."""
        self._subscribers.append(on_applied)

    async def open(self, storage: Storage, epoch: int) -> None:
        """Called after the groups are open. Without them, or with a damaged journal, `problem` is set."""
        if self._groups.problem is not None:
            self._journaled.refuse(self._groups.problem)
            return
        try:
            await self._journaled.open(storage, epoch)
        except CorruptData as error:
            logger.error("stream groups are not available until this is repaired: %s", error)
            return
        self._table.keep({group.id for group in self._groups.groups().values()})

    def begin_close(self) -> None:
        """Refuses later requests with ShuttingDown."""
        self._is_closing = True

    async def close(self) -> None:
        self.begin_close()
        await self._journaled.close()

    @property
    def problem(self) -> QuiverError | None:
        """Why stream groups are not available; every request for them raises it."""
        return self._journaled.problem

    def check_open(self) -> None:
        if self._is_closing:
            raise ShuttingDown()
        self._journaled.check()

    def group(self, name: str) -> StreamGroup:
        """Raises GroupNotFound. A queue group has no members and no offsets."""
        self._journaled.check()
        return self._table.group(self._groups.group(name).id)

    def groups(self) -> Mapping[int, StreamGroup]:
        """By id: the groups that have had members or offsets."""
        self._journaled.check()
        return self._table.groups

    async def append(self, event: Event) -> None:
        """Returns once the event is on disk and applied."""
        self.check_open()
        await self._journaled.append(event)

    async def snapshot_if_due(self) -> None:
        await self._journaled.snapshot_if_due()

    def forget(self, group_id: int) -> None:
        """The group was deleted."""
        self._table.groups.pop(group_id, None)

    # what JournaledState needs of a state machine

    def apply(self, event: Event) -> None:
        if self._groups.name_of(event.group_id) is None:
            return
        self._table.apply(event)
        for on_applied in self._subscribers:
            on_applied(event)

    def snapshot(self) -> Iterator[bytes]:
        return self._table.snapshot()

    def restore(self, data: bytes) -> None:
        self._table.restore(data)
