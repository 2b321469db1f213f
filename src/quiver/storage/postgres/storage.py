"""The engine on PostgreSQL: logs in the tables of one schema, each with one owner at a time."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import NamedTuple

import asyncpg

from quiver.log.files.sync_times import SyncTimes
from quiver.model.errors import Closed, DataDirectoryInUse, InvalidSetting
from quiver.model.limits import MIB
from quiver.model.names import StartEpoch
from quiver.storage.memory.storage import check_log_id
from quiver.storage.port import BufferNumbers, LogOptions
from quiver.storage.postgres.appending.appends import AppendBundler
from quiver.storage.postgres.appending.flushing import CommitFlusher
from quiver.storage.postgres.appending.recovery import AppendRecovery, segment_limits
from quiver.storage.postgres.appending.state import PostgresLogState
from quiver.storage.postgres.appending.tail_cache import TailCache
from quiver.storage.postgres.buffering.publish_buffer import PublishBuffer
from quiver.storage.postgres.buffering.replay import BufferReplay
from quiver.storage.postgres.cleaner import Cleaner
from quiver.storage.postgres.database.address import PostgresAddress
from quiver.storage.postgres.database.connections import PoolSettings
from quiver.storage.postgres.database.database import Database
from quiver.storage.postgres.database.errors import Failure, described, is_passing
from quiver.storage.postgres.database.migrations import check_version, migrate, schema_status
from quiver.storage.postgres.log import PostgresLog
from quiver.storage.postgres.of_start import StorageOfStart, failure_of, snapshot_warnings
from quiver.storage.postgres.resources import PostgresResources
from quiver.storage.postgres.standby import StandbyReads
from quiver.system.pace import bounded_gather
from quiver.system.randomness import Randomness, SystemRandomness
from quiver.system.threads import ThreadPool

logger = logging.getLogger(__name__)

_HOLDER_SECONDS = 3.0
"""How long the connection that holds the node id has to respond after an outage."""


class PostgresSettings(NamedTuple):
    pool: PoolSettings = PoolSettings()
    cache_bytes: int = 64 * MIB
    """Of the ends of all logs together."""
    start_seconds: float = 30.0
    """How long a start waits for a database that cannot be reached."""
    hold_seconds: float = 5.0
    """How long it waits for another process to let go: the database may not have noticed its end yet."""
    node_id: str | None = None
    """One process at a time has it; None: it has none."""
    read_from: PostgresAddress | None = None
    """A standby, for old frames."""
    buffer_dir: Path | None = None
    """For publishes while the database is away."""
    buffer_bytes: int = 1024 * MIB


class PostgresStorage:
    """Call `open` first. A broker holds its node id by a lock of its own connection; the fence in every write is what
    protects the data.

    Logs that are opened here belong to the start epoch that `open` has taken; `of_start` gives the storage of another
    start.
    """

    def __init__(
        self,
        address: PostgresAddress,
        settings: PostgresSettings | None = None,
        randomness: Randomness | None = None,
    ) -> None:
        settings, randomness = settings or PostgresSettings(), randomness or SystemRandomness()
        database = Database(address, settings.pool)
        recovery = AppendRecovery(database)
        buffer = None
        if settings.buffer_dir is not None:
            buffer = PublishBuffer(settings.buffer_dir, settings.buffer_bytes, randomness)
        self._settings = settings
        self._database = database
        standby_address = settings.read_from and settings.read_from._replace(schema=address.schema)
        self.resources = PostgresResources(
            database=database,
            recovery=recovery,
            appends=AppendBundler(database, recovery, buffer),
            flusher=CommitFlusher(database),
            cache=TailCache(settings.cache_bytes),
            cleaner=Cleaner(database),
            threads=ThreadPool(1, "compact"),
            randomness=randomness,
            standby=None if standby_address is None else StandbyReads(standby_address, settings.pool),
            buffer=buffer,
        )
        self._replay: BufferReplay | None = None
        if buffer is not None:
            self._replay = BufferReplay(
                database, recovery, buffer, state_of=self._open_state, adopt=self._adopt_replayed
            )
        self.resources.flusher.restore = self._restore
        database.on_back = self._on_back
        database.pool.on_connected = database.note_server
        self._logs: dict[str, PostgresLog] = {}
        self._opening: dict[str, asyncio.Lock] = {}
        self._holder: asyncpg.Connection | None = None
        self._is_open = False
        self._owner = StartEpoch(0)
        self.on_buffer_stored: Callable[[], Awaitable[None]] = _nothing
        """Awaited when `open` has stored what was left in the local buffer: others that had these logs open do not
        know of it."""

    @property
    def sync_times(self) -> SyncTimes:
        return self.resources.appends.commit_times

    @property
    def problem(self) -> str | None:
        if self._database.problem is not None:
            problem, buffer = f"the database cannot be used: {self._database.problem}", self.resources.buffer
            if buffer is None:
                return problem
            return None if buffer.problem is None else f"{problem}; {buffer.problem}"
        return failure_of(self.logs_of(self._owner))

    @property
    def outage(self) -> str | None:
        """Why the database cannot be used now: what is under way waits until it can."""
        return self._database.problem

    def logs_of(self, owner: StartEpoch) -> list[PostgresLog]:
        """That it has open."""
        return [log for log in self._logs.values() if log.state.owner == owner and not log.is_closed]

    @property
    def warnings(self) -> dict[str, str]:
        found = snapshot_warnings(self.logs_of(self._owner))
        standby = self.resources.standby
        if standby is not None and standby.problem is not None:
            found["read_from"] = f"the standby cannot be used: {standby.problem}"
        if (waiting := self._buffer_warning()) is not None:
            found["buffer"] = waiting
        return found

    def _buffer_warning(self) -> str | None:
        buffer, replay = self.resources.buffer, self._replay
        if buffer is None or replay is None:
            return None
        if self._database.problem is None:
            return replay.problem or (buffer.problem if buffer.is_shared else None)
        return (
            f"the database cannot be used: {self._database.problem}; publishes go to the local buffer, which has "
            f"{buffer.message_count} messages in {buffer.size_bytes} of {buffer.max_bytes} bytes"
        )

    @property
    def buffer_numbers(self) -> BufferNumbers | None:
        buffer = self.resources.buffer
        if buffer is None:
            return None
        is_in_use = self._database.problem is not None and buffer.problem is None
        return BufferNumbers(buffer.message_count, buffer.size_bytes, buffer.buffered_total, is_in_use)

    async def open(self) -> None:
        """Takes the schema, and creates or updates its tables where they are empty.

        Raises InvalidSetting when the database cannot be used, UnsupportedVersion, DataDirectoryInUse.
        """
        deadline = asyncio.get_running_loop().time() + self._settings.start_seconds
        while self._holder is None:
            try:
                self._holder = await self._connect_holder()
            except Failure as error:
                is_late = asyncio.get_running_loop().time() >= deadline
                if is_late or not is_passing(error):
                    problem = f"cannot use {self._database.address.shown}: {described(error)}"
                    raise InvalidSetting(setting="storage", problem=problem) from error
                logger.warning("waiting for the database: %s", described(error))
                await asyncio.sleep(0.5)
        await self._hold(self._holder, asyncio.get_running_loop().time() + self._settings.hold_seconds)
        if self.resources.standby is not None:
            self.resources.standby.system_identifier = (await self._database.fetch_row("system_identifier"))[0]
        self._owner = await self.next_start_epoch()
        await self._store_buffered()
        self._is_open = True

    def share_with(self, others: int) -> None:
        """So many other processes use the schema now. While there are any, another one may take over a log, so
        nothing is buffered."""
        if self.resources.buffer is not None:
            self.resources.buffer.is_shared = others > 0

    @property
    def start_epoch(self) -> StartEpoch:
        """Of this process."""
        return self._owner

    def of_start(self, start_epoch: StartEpoch) -> StorageOfStart:
        """For one of several workers of this process."""
        return StorageOfStart(self, start_epoch)

    async def _store_buffered(self) -> None:
        """What an earlier process has left in the local buffer."""
        buffer, replay = self.resources.buffer, self._replay
        if buffer is None or replay is None:
            return
        installation = (await self._database.fetch_row("installation", self._database.address.schema))[0]
        try:
            await buffer.open(installation)
        except OSError as error:
            problem = f"cannot use {buffer.path.parent}: {error.strerror or error}"
            raise InvalidSetting(setting="buffer_dir", problem=problem) from error
        replay.owner = self._owner
        await replay.at_start(installation, self.on_buffer_stored)

    def _open_state(self, log_id: str) -> PostgresLogState | None:
        log = self._logs.get(log_id)
        return None if log is None or log.is_closed else log.state

    def _adopt_replayed(self, log_id: str, stored: PostgresLogState) -> None:
        if (log := self._logs.get(log_id)) is not None:
            log.adopt(stored)

    async def _connect_holder(self) -> asyncpg.Connection:
        holder = await self._database.pool.connect()
        holder.add_termination_listener(self._on_holder_lost)
        return holder

    def _on_holder_lost(self, holder: object) -> None:
        """The first to notice that the database is gone, while nothing is sent."""
        if self._is_open and holder is self._holder:
            self._holder = None
            self._database.lose("the server closed the connection")

    async def _hold(self, holder: asyncpg.Connection, deadline: float) -> None:
        schema, node_id = self._database.address.schema, self._settings.node_id
        while not await self._lock(holder):
            if asyncio.get_running_loop().time() >= deadline:
                shown = self._database.address.shown
                raise DataDirectoryInUse(
                    f"{shown} is held by another broker with the node id {node_id}; give this one another --node-id "
                    "and a --data-dir of its own"
                )
            await asyncio.sleep(0.2)
        status = await schema_status(holder, schema)
        check_version(status)
        if status.pending:
            if status.version:
                raise InvalidSetting(
                    setting="storage",
                    problem=f"the tables have version {status.version}, this Quiver needs {status.newest}; "
                    "make a backup, then run quiver storage migrate",
                )
            for migration in await migrate(holder, schema):
                logger.info("created the tables: %s", migration.name)

    async def _lock(self, holder: asyncpg.Connection) -> bool:
        """False: another process has the node id, or an older version of Quiver the whole schema."""
        schema, node_id = self._database.address.schema, self._settings.node_id
        if not await holder.fetchval("select pg_try_advisory_lock_shared(hashtext($1), 2)", f"quiver {schema}"):
            return False
        if node_id is None:
            return True
        found: bool = await holder.fetchval(
            "select pg_try_advisory_lock(hashtextextended($1, 0))", f"quiver {schema} {node_id}"
        )
        return found

    async def open_log(self, log_id: str, options: LogOptions) -> PostgresLog:
        return await self.open_owned(log_id, options, self._owner)

    async def open_owned(self, log_id: str, options: LogOptions, owner: StartEpoch) -> PostgresLog:
        if not self._is_open:
            raise Closed(what="the storage")
        check_log_id(log_id)
        async with self._opening.setdefault(log_id, asyncio.Lock()):
            log = self._logs.get(log_id)
            if log is not None and not log.is_closed and log.state.owner < owner:
                await log.discard()
            if log is None or log.is_closed:
                state = PostgresLogState(log_id, owner, segment_limits(options))
                await self.resources.recovery.open(state)
                log = self._logs[log_id] = PostgresLog(state, options, self.resources)
                await self._remove_rest(state)
            log.configure(options)
        self._opening.pop(log_id, None)
        return log

    async def _remove_rest(self, state: PostgresLogState) -> None:
        """Frames below the start, which a process that ended has not deleted any more."""
        row = await self._database.fetch_row("first_frame", state.id)
        if row is not None and row[0] is not None and row[0] < state.start_offset:
            self.resources.cleaner.remove(state.id, [(row[0], state.start_offset)])

    async def discard_logs(self, directory: str, owner: StartEpoch | None = None) -> None:
        """Those of one owner, or of all."""
        below = f"{check_log_id(directory)}/"
        for log_id in [each for each in self._logs if each == directory or each.startswith(below)]:
            log = self._logs[log_id]
            if owner is None or log.state.owner == owner:
                await log.discard()
                self._logs.pop(log_id, None)

    async def delete_logs(self, directory: str) -> None:
        await self.discard_logs(directory)
        for log, _ in await self._database.fetch("logs_below", f"{directory}/"):
            for row in await self._database.fetch("segments", log):
                await self._database.fetch("delete_frames", log, 0, row["base_offset"])
            await self._database.fetch("delete_frames", log, 0, 2**63 - 1)
            await self._database.fetch("delete_log", log)

    async def list_logs(self, prefix: str = "") -> list[str]:
        return [row[0] for row in await self._database.fetch("list_logs", prefix)]

    async def next_start_epoch(self) -> StartEpoch:
        row = await self._database.fetch_row("next_start_epoch")
        return StartEpoch(row[0])

    async def _on_back(self) -> None:
        """The database can be reached again: settles what was under way before anything else is written."""
        if self._holder is None or not await _responds(self._holder):
            self._holder = holder = await self._connect_holder()
            if not await self._lock(holder):
                logger.warning("another process has taken the node id %s", self._settings.node_id)
        await self.resources.appends.settle_unknown()
        await self.resources.flusher.restore_lost()
        await self.resources.appends.settle_unknown()  # what has failed only now
        if self._replay is not None:
            for pending in await self._replay.run():
                self.resources.appends.queue(pending)

    async def close_logs(self, owner: StartEpoch) -> None:
        for problem in [problem for problem in await bounded_gather(_close, self.logs_of(owner)) if problem]:
            raise problem

    async def _restore(self, log: int) -> None:
        for each in list(self._logs.values()):
            if each.state.id == log and not each.is_closed:
                await each.restore_lost()
                return
        self.resources.flusher.give_up(log)

    async def close(self) -> None:
        self._is_open = False
        problems = [problem for problem in await bounded_gather(_close, list(self._logs.values())) if problem]
        await self.resources.cleaner.close()
        await self.resources.flusher.close()
        await self.resources.appends.close()
        await self._database.close()
        if self.resources.standby is not None:
            await self.resources.standby.close()
        self.resources.threads.close()
        if self.resources.buffer is not None:
            self.resources.buffer.close()
        if self._holder is not None:
            self._holder.terminate()
            self._holder = None
        for problem in problems:
            raise problem


async def _nothing() -> None:
    """Nobody else has logs open."""


async def _responds(connection: asyncpg.Connection) -> bool:
    """False: it is closed, if it was not."""
    try:
        await connection.fetchval("select 1", timeout=_HOLDER_SECONDS)
    except Failure:
        connection.terminate()
        return False
    return True


async def _close(log: PostgresLog) -> Exception | None:
    try:
        await log.close()
    except Exception as problem:
        return problem
    return None
