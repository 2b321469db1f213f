"""Appends of all logs, bundled into a few commits at a time."""

import asyncio
import logging
from bisect import bisect_left
from collections import deque
from collections.abc import Sequence

from quiver.log.files.sync_times import SyncTimes
from quiver.model.errors import PartitionOffline, QuiverError, ShuttingDown, StorageUnavailable
from quiver.model.limits import KIB, MIB
from quiver.storage.postgres.appending.pending import PendingAppend, append_query
from quiver.storage.postgres.appending.recovery import AppendRecovery
from quiver.storage.postgres.buffering.publish_buffer import PublishBuffer
from quiver.storage.postgres.database.database import Database
from quiver.storage.postgres.database.errors import Failure, check_cancelled, described, is_passing, unavailable
from quiver.storage.postgres.database.statements import sql
from quiver.telemetry.histogram import LATENCY_SECONDS

logger = logging.getLogger(__name__)

_IN_FLIGHT = 4
_BUNDLE_BYTES = 4 * MIB
_BUNDLE_APPENDS = 128
"""More of them are several commits: one is prepared while the database works on another."""
_WORTH_BYTES = 256 * KIB
"""A commit of fewer bytes and appends waits for the one that is under way, so that small appends share one."""


class _NotSent(Exception):
    """There is no connection, so nothing was sent."""

    def __init__(self, reason: BaseException) -> None:
        super().__init__(str(reason))
        self.reason = reason


class AppendBundler:
    """One append per log at a time. An append ends when its outcome is known: where a connection breaks before the
    response, the log is asked first, and what is not there is sent again."""

    def __init__(self, database: Database, recovery: AppendRecovery, buffer: PublishBuffer | None = None) -> None:
        self._database = database
        self._recovery = recovery
        self._buffer = buffer
        self._waiting: deque[PendingAppend] = deque()
        self._waiting_bytes = 0
        self._unknown: list[PendingAppend] = []
        self._in_flight: set[asyncio.Task[None]] = set()
        self._is_called = False
        self.commit_times = SyncTimes()

    def submit(self, pending: PendingAppend) -> None:
        """Raises StorageUnavailable, with nothing changed, while the database is away and nothing can be buffered."""
        if self._database.problem is not None and self._buffer is not None and pending.may_be_buffered:
            self._buffer.submit(pending)
            return
        self._database.check()
        self.queue(pending)

    def queue(self, pending: PendingAppend) -> None:
        self._waiting.append(pending)
        self._waiting_bytes += pending.append.size_bytes
        if not self._is_called:
            self._is_called = True
            asyncio.get_running_loop().call_soon(self._start)

    def _start(self) -> None:
        self._is_called = False
        while self._waiting and len(self._in_flight) < _IN_FLIGHT:
            is_small = self._waiting_bytes < _WORTH_BYTES and len(self._waiting) < _BUNDLE_APPENDS
            if self._in_flight and is_small:
                return
            task = asyncio.get_running_loop().create_task(self._commit(self._take()))
            self._in_flight.add(task)
            task.add_done_callback(self._ended)

    def _take(self) -> list[PendingAppend]:
        bundle: list[PendingAppend] = []
        size = 0
        while self._waiting and (not bundle or size + self._waiting[0].append.size_bytes <= _BUNDLE_BYTES):
            if len(bundle) == _BUNDLE_APPENDS:
                break
            bundle.append(self._waiting.popleft())
            size += bundle[-1].append.size_bytes
        self._waiting_bytes -= size
        return bundle

    def _ended(self, task: "asyncio.Task[None]") -> None:
        self._in_flight.discard(task)
        if not task.cancelled() and task.exception() is None:
            self._start()

    async def _commit(self, bundle: list[PendingAppend]) -> None:
        if self._database.problem is not None:
            self._refuse(self._unbuffered(bundle), unavailable(self._database.problem))
            return
        try:
            missed = await self._send(bundle)
        except _NotSent as error:
            problem = self._database.failed(error.reason)
            self._refuse(self._unbuffered(bundle), problem)
        except Exception as error:  # whatever it is, somebody waits for each of them
            await self._failed(bundle, error)
        else:
            await self._settle(missed)

    async def _send(self, bundle: list[PendingAppend]) -> list[PendingAppend]:
        """One commit. Returns those that the fence refused; after any error but _NotSent the outcome is unknown."""
        try:
            connection = await self._database.pool.take()
        except Failure as error:
            raise _NotSent(error) from error
        except asyncio.CancelledError:
            check_cancelled()
            raise _NotSent(ConnectionResetError("the connection was lost")) from None
        is_synced = any(pending.append.sync for pending in bundle)
        for pending in bundle:
            pending.append.sync = is_synced
        is_usable = False
        began = asyncio.get_running_loop().time()
        try:
            name, values = append_query(bundle)
            rows = await connection.fetch(sql(name), *values)
            is_usable = True
        except asyncio.CancelledError:
            check_cancelled()
            raise ConnectionResetError("the connection was lost") from None
        finally:
            self._database.pool.give_back(connection, is_usable=is_usable)
        self._note_time(asyncio.get_running_loop().time() - began)
        stored = {row[0] for row in rows}
        for pending in bundle:
            if pending.state.id in stored:
                pending.end(pending.append, None)
        return [pending for pending in bundle if pending.state.id not in stored]

    def _note_time(self, seconds: float) -> None:
        times = self.commit_times.seconds
        times.counts[bisect_left(LATENCY_SECONDS, seconds)] += 1
        times.sum += seconds

    async def _failed(self, bundle: list[PendingAppend], error: BaseException) -> None:
        self.commit_times.failures += 1
        if not isinstance(error, Failure):
            logger.exception("a commit ended in an unexpected way")
        if is_passing(error) or not isinstance(error, Failure):
            self._database.lose(described(error))
            self._unknown += self._unbuffered(bundle)
        elif len(bundle) > 1:  # one of them is at fault: find out which
            for pending in bundle:
                await self._commit([pending])
        else:
            state = bundle[0].state
            state.failure = described(error)
            self._refuse(bundle, PartitionOffline(partition=state.log_id, problem=state.failure))

    def _unbuffered(self, bundle: Sequence[PendingAppend]) -> list[PendingAppend]:
        """Gives what it can to the local buffer, and returns the others."""
        others = []
        for pending in bundle:
            try:
                if self._buffer is None or not pending.may_be_buffered:
                    others.append(pending)
                else:
                    self._buffer.submit(pending)
            except StorageUnavailable:  # it is full
                others.append(pending)
        return others

    def _refuse(self, bundle: Sequence[PendingAppend], error: Exception) -> None:
        for pending in bundle:
            pending.end(None, error)

    async def _settle(self, missed: list[PendingAppend]) -> None:
        """The fence refused them: learns why, and sends again what belongs to this owner still."""
        for number, pending in enumerate(missed):
            try:
                if not await self._is_settled(pending):
                    self.queue(pending)
            except StorageUnavailable:
                self._unknown += missed[number:]
                return

    async def _is_settled(self, pending: PendingAppend) -> bool:
        """False: it is not stored, nothing of it can be any more, and it may be sent again."""
        try:
            found = await self._recovery.look(pending.state, pending.append)
        except StorageUnavailable:
            raise
        except QuiverError as error:
            pending.end(None, error)
            return True
        pending.append = found.append
        if found.is_stored:
            pending.end(found.append, None)
        return found.is_stored

    async def settle_unknown(self) -> None:
        """The database is back: settles what was under way. Raises an error when it is gone again, or still full."""
        while self._unknown:
            pending = self._unknown[0]
            if not await self._is_settled(pending):
                await self.store(pending)
            self._unknown.remove(pending)

    async def store(self, pending: PendingAppend) -> None:
        """Ends it, also while the database may not be used otherwise. Raises StorageUnavailable when it is away: its
        outcome is unknown then."""
        while True:
            try:
                if not await self._send([pending]):
                    return
            except _NotSent as error:
                raise self._database.failed(error.reason) from error
            except Failure as error:
                if is_passing(error):
                    raise self._database.failed(error) from error
                await self._failed([pending], error)
                return
            if await self._is_settled(pending):
                return

    async def close(self) -> None:
        """Appends whose outcome is unknown stay unknown: the next owner finds out."""
        if self._in_flight:
            await asyncio.wait(self._in_flight, timeout=5)
        unknown, self._unknown = [*self._unknown, *self._waiting], []
        self._waiting.clear()
        self._refuse(unknown, ShuttingDown())
