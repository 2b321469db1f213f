"""A journaled state machine: a pure state, and the journal that brings it back after a restart.

An owner uses one of two ways to change the state, as `Journal` describes them:

- `append` an event: it is applied once it is on disk. Nothing is in the state that a restart could forget.
- change the state, then `write` the event (`changes_first`): for state that cannot wait for the disk. Events are
  applied at start-up only, and the owner takes its change back when a write fails.
"""

import logging
from collections.abc import Callable, Iterable
from typing import Generic, NamedTuple, Protocol, TypeVar

from quiver.model.errors import CorruptData, DiskFull, NotLeader, PartitionOffline, QuiverError, ShuttingDown
from quiver.storage.history import NO_HISTORY, History
from quiver.storage.journal import OPTIONS, OPTIONS_FOR_WRITE, Journal
from quiver.storage.port import Storage
from quiver.system.clock import Clock

logger = logging.getLogger(__name__)

Event = TypeVar("Event")
Applied = TypeVar("Applied", contravariant=True)

SNAPSHOT_AFTER_SECONDS = 300.0


class StateMachine(Protocol[Applied]):
    """Events in, state out: no clock, no I/O, no await."""

    def apply(self, event: Applied) -> None: ...

    def snapshot(self) -> Iterable[bytes]:
        """All of the state, in chunks, between which others run."""

    def restore(self, data: bytes) -> None:
        """The state as `snapshot` gave it. May raise, and is then called again with an older snapshot."""


class EventCodec(NamedTuple, Generic[Event]):
    """How events become records of the journal."""

    encode: Callable[[Event], bytes]
    decode: Callable[[bytes], Event]


class JournaledState(Generic[Event]):
    """One owner, one event loop. `open` comes first."""

    def __init__(
        self,
        log_id: str,
        state: StateMachine[Event],
        codec: EventCodec[Event],
        *,
        clock: Clock,
        changes_first: bool = False,
        snapshot_after_seconds: float = SNAPSHOT_AFTER_SECONDS,
    ) -> None:
        self._log_id = log_id
        self._state = state
        self._codec = codec
        self._clock = clock
        self._changes_first = changes_first
        self._snapshot_after_seconds = snapshot_after_seconds
        self._journal: Journal | None = None
        self.problem: QuiverError | None = None
        """Why nothing is known of the state, and why every request for it is refused."""

    async def open(self, storage: Storage, epoch: int, *, history: History = NO_HISTORY) -> None:
        """Restores the newest usable snapshot and applies the events after it.

        Raises CorruptData if the journal is damaged; that is `problem` from then on.
        """
        try:
            self._journal = await Journal.open(
                storage,
                self._log_id,
                epoch=epoch,
                clock=self._clock,
                restore=self._state.restore,
                apply=self._apply,
                options=OPTIONS_FOR_WRITE if self._changes_first else OPTIONS,
                history=history,
            )
        except CorruptData as error:
            self.problem = error
            raise

    def refuse(self, problem: QuiverError) -> None:
        """Instead of `open`: the state rests on another one that is damaged."""
        self.problem = problem

    @property
    def is_open(self) -> bool:
        return self._journal is not None

    def check(self) -> None:
        """Raises `problem`, if there is one."""
        if self.problem is not None:
            raise self.problem

    @property
    def journal(self) -> Journal:
        """For owners that write records of their own making. Raises ShuttingDown if it is not open."""
        self.check()
        if self._journal is None:
            raise ShuttingDown()
        return self._journal

    async def append(self, event: Event) -> None:
        """Returns once the event is on disk and applied."""
        await self.journal.append(self._codec.encode(event))

    async def write(self, event: Event, *, sync: bool) -> None:
        """Returns once the event is written or, with `sync`, on disk. The owner has changed the state already."""
        await self.journal.write(self._codec.encode(event), sync=sync)

    def is_snapshot_due(self, after_seconds: float | None = None) -> bool:
        """When the journal has grown enough, or so many seconds after the first change since the last snapshot."""
        if after_seconds is None:
            after_seconds = self._snapshot_after_seconds
        return self._journal is not None and self._journal.snapshot_due(after_seconds)

    async def snapshot_if_due(self, after_seconds: float | None = None) -> None:
        if self.is_snapshot_due(after_seconds):
            await self.snapshot()

    async def snapshot(self) -> None:
        if self._changes_first:
            await self.journal.snapshot_concurrently(self._state.snapshot)
        else:
            await self.journal.snapshot(self._state.snapshot)

    async def close(self, *, with_snapshot: bool = True) -> None:
        """Finishes what was accepted; `append` and `write` are ShuttingDown from then on.

        With a snapshot of what has changed, the next start has nothing to replay. A full disk takes none, nor does a
        log that another node leads now.
        """
        if self._journal is None:
            return
        try:
            if with_snapshot:
                await self.snapshot_if_due(after_seconds=0)
        except (DiskFull, PartitionOffline, NotLeader) as error:
            logger.warning("%s: closed without a snapshot: %s", self._log_id, error)
        finally:
            await self._journal.close()

    async def abandon(self) -> None:
        """Finishes what was accepted: the log is about to be removed."""
        if self._journal is not None:
            await self._journal.abandon()

    def _apply(self, record: bytes) -> None:
        self._state.apply(self._codec.decode(record))
