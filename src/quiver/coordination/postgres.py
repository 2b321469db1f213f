"""The engine `postgres`: keys in tables of the database that has the logs, for all brokers that use it.

A transaction is one call of a function in the database, which locks one row: transactions are in one order, and the
revision rises in it. The times of leases are those of the database's clock.
"""

import asyncio
import logging
from collections.abc import AsyncGenerator, Sequence

import asyncpg

from quiver.coordination.port import (
    Change,
    ChangeBatch,
    Delete,
    Expected,
    KeyRange,
    KeyValue,
    Operation,
    Outcome,
    Put,
    check_transaction,
)
from quiver.model.errors import StorageUnavailable
from quiver.storage.postgres.database.database import Database
from quiver.storage.postgres.database.errors import Failure, check_cancelled
from quiver.telemetry.supervised_task import SupervisedTask

logger = logging.getLogger(__name__)

_KEPT_REVISIONS = 10_000
_BATCH_REVISIONS = 1_000
_POLL_SECONDS = 1.0


class PostgresCoordination:
    """The tables are there before `open`. While the database is away, watches wait and everything else raises
    StorageUnavailable."""

    def __init__(self, database: Database, *, kept_revisions: int = _KEPT_REVISIONS) -> None:
        self._database = database
        self._kept_revisions = kept_revisions
        self._changed = asyncio.Event()
        """Set when there may be something new, and replaced by another one."""
        self._listener: asyncpg.Connection | None = None
        self.task = SupervisedTask("coordination", self._keep_up)

    async def open(self) -> None:
        self.task.start()

    async def close(self) -> None:
        await self.task.stop()
        if self._listener is not None:
            self._listener.terminate()
            self._listener = None

    async def get(self, key: str) -> KeyValue | None:
        row = await self._database.fetch_row("coordination_get", key)
        return None if row is None else KeyValue(key, row["value"], row["revision"])

    async def range(self, prefix: str) -> KeyRange:
        rows = await self._database.fetch("coordination_range", prefix)
        found = [KeyValue(row["key"], row["value"], row["changed"]) for row in rows if row["key"] is not None]
        return KeyRange(rows[0]["revision"], found)

    async def commit(self, expected: Sequence[Expected], operations: Sequence[Operation]) -> Outcome:
        check_transaction(expected, operations)
        puts = [each for each in operations if isinstance(each, Put)]
        row = await self._database.fetch_row(
            "coordination_commit",
            [each.key for each in expected],
            [each.revision for each in expected],
            [put.key for put in puts],
            [put.value for put in puts],
            [put.lease_id for put in puts],
            [each.key for each in operations if isinstance(each, Delete)],
            self._kept_revisions,
        )
        self._wake()
        return Outcome(row["succeeded"], row["at_revision"], row["missing_lease_id"])

    async def watch(self, prefix: str, after_revision: int = 0) -> AsyncGenerator[ChangeBatch, None]:
        is_first = after_revision == 0
        while True:
            changed = self._changed  # before the look: what happens during it is not missed
            batch = await self._next_batch(prefix, after_revision)
            if batch is None or (batch.revision == after_revision and not is_first):
                await changed.wait()
                continue
            is_first = False
            after_revision = batch.revision
            yield batch

    async def grant_lease(self, ttl_ms: int) -> int:
        row = await self._database.fetch_row("coordination_grant_lease", ttl_ms)
        return int(row[0])

    async def keep_alive(self, lease_id: int) -> bool:
        """Also while what was under way before an outage is being settled: others wait for it only for so long."""
        return await self._database.fetch_row("coordination_keep_alive", lease_id, while_away=True) is not None

    async def revoke(self, lease_id: int) -> None:
        await self._database.fetch("coordination_end_lease", lease_id, self._kept_revisions)
        self._wake()

    async def _next_batch(self, prefix: str, after_revision: int) -> ChangeBatch | None:
        """None while the database is away."""
        try:
            if after_revision:
                rows = await self._database.fetch("coordination_changes", after_revision, prefix, _BATCH_REVISIONS)
                revision, forgotten = rows[0]["revision"], rows[0]["forgotten_revision"]
                if forgotten <= after_revision <= revision:
                    changes = [Change(row["key"], row["value"], row["changed"]) for row in rows if row["key"]]
                    return ChangeBatch(min(revision, after_revision + _BATCH_REVISIONS), changes)
            revision, items = await self.range(prefix)
        except StorageUnavailable:
            return None
        return ChangeBatch(revision, [Change(*item) for item in items], is_complete=True)

    def _wake(self, *_: object) -> None:
        self._changed.set()
        self._changed = asyncio.Event()

    async def _keep_up(self) -> None:
        """Listens, looks every second in case that a notification was lost, and ends leases whose time is up."""
        while True:
            pause = _POLL_SECONDS
            try:
                await self._listen()
                pause = min(pause, await self._end_leases())
            except StorageUnavailable as error:
                logger.info("coordination waits for the database: %s", error)
            self._wake()
            await asyncio.sleep(pause)

    async def _end_leases(self) -> float:
        """Returns in how many seconds the next one ends."""
        left_ms = await self._next_end_ms()
        if left_ms == 0:
            await self._database.fetch("coordination_end_lease", None, self._kept_revisions)
            left_ms = await self._next_end_ms()
        return left_ms / 1000

    async def _next_end_ms(self) -> float:
        row = await self._database.fetch_row("coordination_next_end")
        return _POLL_SECONDS * 1000 if row is None else float(row[0])

    async def _listen(self) -> None:
        if self._listener is not None and not self._listener.is_closed():
            return
        self._database.check()
        try:
            self._listener = await self._database.pool.connect()
            await self._listener.add_listener(f"quiver_{self._database.address.schema}", self._wake)
        except Failure as error:
            raise self._database.failed(error) from error
        except asyncio.CancelledError as error:
            check_cancelled()
            raise self._database.failed(ConnectionResetError("the connection was lost")) from error
