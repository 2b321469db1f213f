"""Commits that were not waited for: kept until they are on disk, and written again if the database loses them."""

import asyncio
import logging
from collections.abc import Awaitable, Callable

from quiver.model.errors import QuiverError, StorageUnavailable
from quiver.model.limits import MIB
from quiver.storage.postgres.appending.state import PostgresLogState
from quiver.storage.postgres.database.database import Database

logger = logging.getLogger(__name__)

_MOST_BYTES = 32 * MIB
_INTERVAL_SECONDS = 0.5
_RESTORE_SECONDS = 5.0
"""How long a log is waited for that is busy: what it is busy with ends with the connection that was lost."""


class CommitFlusher:
    """`restore` is called for a log whose last commits the database does not have any more."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._states: dict[int, PostgresLogState] = {}
        self._bytes = 0
        self._timer: asyncio.TimerHandle | None = None
        self._running: asyncio.Future[None] | None = None
        self._next: asyncio.Future[None] | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self.restore: Callable[[int], Awaitable[None]] | None = None

    @property
    def is_full(self) -> bool:
        """Whether the next append has to wait for the disk."""
        return self._bytes >= _MOST_BYTES

    def note(self, state: PostgresLogState, frames: list[bytes]) -> None:
        """Frames were committed and may not be on disk."""
        state.unsynced += frames
        self._bytes += sum(map(len, frames))
        self._states[state.id] = state
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(_INTERVAL_SECONDS, self._on_timer)

    def forget(self, state: PostgresLogState) -> None:
        """Everything of the log is on disk, or is not wanted any more."""
        if self._states.pop(state.id, None) is not None:
            self._bytes -= sum(map(len, state.unsynced))
            state.unsynced = []

    def give_up(self, log: int) -> None:
        """The log is closed: nobody can store its frames again."""
        if (state := self._states.get(log)) is not None:
            self.forget(state)

    def _on_timer(self) -> None:
        self._timer = None
        if self._states and self._database.problem is None:
            task = asyncio.get_running_loop().create_task(self._flush_quietly())
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        elif self._states:
            self._timer = asyncio.get_running_loop().call_later(_INTERVAL_SECONDS, self._on_timer)

    async def _flush_quietly(self) -> None:
        try:
            await self.flush()
        except QuiverError as error:
            logger.warning("commits could not be synced: %s", error)
        if self._states and self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(_INTERVAL_SECONDS, self._on_timer)

    async def sync(self, state: PostgresLogState) -> None:
        """Returns when everything that the log has is on disk."""
        while state.id in self._states and state.unsynced:
            await self.flush()

    async def flush(self) -> None:
        """Callers that come while a flush runs share the next one."""
        if self._next is None:
            self._next = asyncio.get_running_loop().create_future()
            task = asyncio.get_running_loop().create_task(self._run(self._next))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        await asyncio.shield(self._next)

    async def restore_lost(self) -> None:
        """The database is back: it gets what it has lost before anybody reads, who would take it for a hole.

        Raises an error when the database is gone again.
        """
        for log in await self._flush_all(while_away=True) if self._states else ():
            log_id = self._states[log].log_id
            try:
                async with asyncio.timeout(_RESTORE_SECONDS):
                    await self._restore(log)
            except StorageUnavailable:
                raise
            except QuiverError as error:
                logger.error("%s: what the database has lost cannot be stored again: %s", log_id, error)

    async def _restore(self, log: int) -> None:
        if self.restore is not None:
            await self.restore(log)

    async def _run(self, result: "asyncio.Future[None]") -> None:
        if self._running is not None:
            await asyncio.wait([self._running])
        self._running, self._next = result, None
        try:
            for log in await self._flush_all():
                await self._restore(log)
        except BaseException as error:
            result.set_exception(error)
            result.exception()  # whoever waits gets it; nobody may be waiting
            if not isinstance(error, Exception):
                raise
        else:
            result.set_result(None)
        finally:
            if self._running is result:
                self._running = None

    async def _flush_all(self, *, while_away: bool = False) -> list[int]:
        """Returns the logs that end before what was committed."""
        before = {log: (state.frames_end, state.unsynced, len(state.unsynced)) for log, state in self._states.items()}
        rows = await self._database.fetch("flush", list(before), while_away=while_away)
        ends = {row[0]: row[1] for row in rows}
        lost = []
        for log, (end, frames, count) in before.items():
            state = self._states.get(log)
            if state is None or state.unsynced is not frames:  # an append has waited for the disk meanwhile
                continue
            if ends.get(log, 0) < end:
                lost.append(log)
                continue
            self._bytes -= sum(map(len, state.unsynced[:count]))
            del state.unsynced[:count]
            if not state.unsynced:
                del self._states[log]
        return lost

    @property
    def unsynced_logs(self) -> list[int]:
        return list(self._states)

    async def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
