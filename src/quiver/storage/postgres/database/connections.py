"""Connections to one database: few, kept open while they are used, and closed when they are idle."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple

import asyncpg

from quiver.storage.postgres.database.address import PostgresAddress

_STATEMENTS_PREPARED = 256


class PoolSettings(NamedTuple):
    max_size: int = 50
    idle_seconds: float = 10.0
    connect_seconds: float = 3.0
    statement_seconds: float = 20.0
    """After this long without a response the connection is given up, and the outcome is unknown."""
    slow_seconds: float = 3.0
    """After this long with a connection in use, the server is asked whether it is there."""


_LOOK_SECONDS = 1.0
_KEEPALIVE = {"tcp_keepalives_idle": "10", "tcp_keepalives_interval": "5", "tcp_keepalives_count": "3"}
"""The server forgets a client whose machine is gone, with its locks, after 25 seconds instead of two hours."""


class ConnectionPool:
    """The connection that was used last is taken first, so those that are not needed become idle. One event loop."""

    def __init__(self, address: PostgresAddress, settings: PoolSettings) -> None:
        self._address = address
        self._settings = settings
        self._places = asyncio.Semaphore(settings.max_size)
        self._idle: list[tuple[asyncpg.Connection, float]] = []
        self._taken: dict[asyncpg.Connection, float] = {}
        """With the times when they were taken."""
        self._closing: asyncio.TimerHandle | None = None
        self._looking: asyncio.TimerHandle | None = None
        self.on_slow: Callable[[], None] | None = None
        """Called about once a second while a connection is in use for long."""
        self.on_connected: Callable[[asyncpg.Connection], Awaitable[None]] | None = None
        """Awaited with each new connection before it is taken."""

    @property
    def size(self) -> int:
        return len(self._idle) + len(self._taken)

    async def take(self) -> asyncpg.Connection:
        """Give it back with `give_back`. Raises what connecting raises."""
        await self._places.acquire()
        try:
            while self._idle:
                connection, _ = self._idle.pop()
                if not connection.is_closed():
                    break
            else:
                connection = await self._new()
        except BaseException:
            self._places.release()
            raise
        loop = asyncio.get_running_loop()
        self._taken[connection] = loop.time()
        if self._looking is None:
            self._looking = loop.call_later(_LOOK_SECONDS, self._look)
        return connection

    async def _new(self) -> asyncpg.Connection:
        connection = await self.connect()
        try:
            if self.on_connected is not None:
                await self.on_connected(connection)
        except BaseException:
            connection.terminate()
            raise
        return connection

    def _look(self) -> None:
        loop = asyncio.get_running_loop()
        self._looking = loop.call_later(_LOOK_SECONDS, self._look) if self._taken else None
        is_slow = any(since <= loop.time() - self._settings.slow_seconds for since in self._taken.values())
        if is_slow and self.on_slow is not None:
            self.on_slow()

    def give_back(self, connection: asyncpg.Connection, *, is_usable: bool = True) -> None:
        self._taken.pop(connection, None)
        self._places.release()
        if not is_usable:
            connection.terminate()
        elif not connection.is_closed():
            loop = asyncio.get_running_loop()
            self._idle.append((connection, loop.time()))
            if self._closing is None:
                self._closing = loop.call_later(self._settings.idle_seconds, self._close_idle)

    async def connect(self) -> asyncpg.Connection:
        """A connection outside the pool, in the schema of the address. The driver sets TCP_NODELAY."""
        settings: dict[str, Any] = {
            "application_name": "quiver",
            "search_path": self._address.schema,
            "jit": "off",
            "plan_cache_mode": "force_generic_plan",  # planning each time takes as long as the statement
            "idle_in_transaction_session_timeout": "60000",
            **_KEEPALIVE,
        }
        connection: asyncpg.Connection = await asyncpg.connect(
            self._address.dsn,
            timeout=self._settings.connect_seconds,
            command_timeout=self._settings.statement_seconds,
            statement_cache_size=_STATEMENTS_PREPARED,
            max_cached_statement_lifetime=0,
            server_settings=settings,
        )
        return connection

    def _close_idle(self) -> None:
        loop = asyncio.get_running_loop()
        oldest = loop.time() - self._settings.idle_seconds
        kept = []
        for connection, since in self._idle:
            if since <= oldest or connection.is_closed():
                connection.terminate()
            else:
                kept.append((connection, since))
        self._idle = kept
        self._closing = None
        if kept:
            wait = max(0.0, kept[0][1] - oldest)
            self._closing = loop.call_later(wait, self._close_idle)

    def drop_idle(self) -> None:
        """Connections that lead to a server that is gone are not tried one by one."""
        for connection, _ in self._idle:
            connection.terminate()
        self._idle.clear()

    def end_taken(self) -> None:
        """Whatever waits for a response on one of them gets an error."""
        for connection in list(self._taken):
            connection.terminate()

    async def close(self) -> None:
        for timer in (self._closing, self._looking):
            if timer is not None:
                timer.cancel()
        idle, self._idle = self._idle, []
        for connection, _ in idle:
            if not connection.is_closed():
                await connection.close(timeout=1)
        self.end_taken()
