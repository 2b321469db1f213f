"""Statements on one database, and whether it can be reached."""

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import asyncpg

from quiver.model.errors import QuiverError
from quiver.storage.postgres.database.address import PostgresAddress
from quiver.storage.postgres.database.connections import ConnectionPool, PoolSettings
from quiver.storage.postgres.database.errors import Failure, check_cancelled, described, is_passing, unavailable
from quiver.storage.postgres.database.statements import sql
from quiver.system.backoff import Backoff

logger = logging.getLogger(__name__)

_FIRST_SECONDS, _LONGEST_SECONDS = 0.05, 2.0


class Database:
    """While it cannot be reached `problem` says why, statements are refused at once, and a task tries again.

    `on_back` is awaited when it can be reached again, before anything else is sent; if it raises, it is called again.
    A server that does not respond is noticed by a connection of its own: the network may drop what is sent.
    """

    def __init__(self, address: PostgresAddress, settings: PoolSettings) -> None:
        self.address = address
        self.pool = ConnectionPool(address, settings)
        self.problem: str | None = None
        self.on_back: Callable[[], Awaitable[None]] | None = None
        self.is_closed = False
        self._retrying: asyncio.Task[None] | None = None
        self._probing: asyncio.Task[None] | None = None
        self._server_life: Any = None
        self.pool.on_slow = self._on_slow

    def check(self) -> None:
        if self.problem is not None:
            raise unavailable(self.problem)

    async def fetch(self, name: str, *values: Any, while_away: bool = False) -> list[Any]:
        """Rows of a named statement. StorageUnavailable: it may or may not have been carried out."""
        async with self.connection(while_away=while_away) as connection:
            rows: list[Any] = await connection.fetch(sql(name), *values)
            return rows

    async def fetch_row(self, name: str, *values: Any, while_away: bool = False) -> Any:
        rows = await self.fetch(name, *values, while_away=while_away)
        return rows[0] if rows else None

    @contextlib.asynccontextmanager
    async def transaction(self) -> AsyncIterator[asyncpg.Connection]:
        async with self.connection() as connection, connection.transaction():
            yield connection

    @contextlib.asynccontextmanager
    async def connection(self, *, while_away: bool = False) -> AsyncIterator[asyncpg.Connection]:
        """Errors of the database become StorageUnavailable, or an internal error that names the statement's."""
        if not while_away:
            self.check()
        connection = None
        is_usable = False
        try:
            connection = await self.pool.take()
            if not while_away:
                self.check()  # an outage may have been noticed meanwhile
            yield connection
            is_usable = True
        except QuiverError:
            is_usable = True
            raise
        except Failure as error:
            raise self.failed(error) from error
        except asyncio.CancelledError as error:
            check_cancelled()
            raise self.failed(ConnectionResetError("the connection was lost")) from error
        finally:
            if connection is not None:
                self.pool.give_back(connection, is_usable=is_usable)

    def failed(self, error: BaseException) -> QuiverError:
        """What a request gets for an error of the database; one that passes begins an outage."""
        if not is_passing(error):
            return QuiverError(f"the database refused a statement: {described(error)}")
        self.lose(described(error))
        return unavailable(self.problem or described(error))

    def lose(self, problem: str) -> None:
        """The database cannot be used now."""
        if self.problem is None:
            logger.warning("the database cannot be used: %s", problem)
            self.problem = problem
        self.pool.drop_idle()
        if self._retrying is None and not self.is_closed:
            self._retrying = asyncio.get_running_loop().create_task(self._retry())

    async def note_server(self, connection: asyncpg.Connection) -> None:
        """For new connections to a primary: it may have crashed and be back before the others have ended."""
        before, self._server_life = self._server_life, await connection.fetchval(sql("server_life"))
        if self.problem is None and before not in (None, self._server_life):
            self.lose("the server was started again")

    def _on_slow(self) -> None:
        if self._probing is None and not self.is_closed:
            self._probing = asyncio.get_running_loop().create_task(self._probe())

    async def _probe(self) -> None:
        """A statement takes long. It is waited for as long as the server takes connections, or says why not."""
        try:
            connection = await self.pool.connect()
        except asyncpg.PostgresError:
            return
        except Failure as error:
            self.lose(described(error))
            self.pool.end_taken()
        else:
            connection.terminate()
        finally:
            self._probing = None

    async def _retry(self) -> None:
        backoff = Backoff(_FIRST_SECONDS, _LONGEST_SECONDS)
        while True:
            await asyncio.sleep(backoff.next_seconds())
            try:
                connection = await self.pool.take()
                self.pool.give_back(connection)
                if self.on_back is not None:
                    await self.on_back()
            except Failure as error:
                self.problem = described(error)
            except QuiverError as error:
                self.problem = str(error.details.get("problem", error))
            except asyncio.CancelledError:
                check_cancelled()
                self.problem = "the connection was lost"
            except Exception as error:
                self.problem = described(error)
                logger.exception("the database is back, but what was under way could not be settled")
            else:
                break
        logger.warning("the database can be used again")
        self.problem = None
        self._retrying = None

    async def close(self) -> None:
        self.is_closed = True
        for task in (self._retrying, self._probing):
            if task is not None:
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)
        await self.pool.close()
