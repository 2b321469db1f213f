"""Reads of old frames from a standby of the database, so that the primary has more time for writes."""

import asyncpg

from quiver.model.errors import StorageUnavailable
from quiver.storage.postgres.database.address import PostgresAddress
from quiver.storage.postgres.database.connections import PoolSettings
from quiver.storage.postgres.database.database import Database

Rows = list[asyncpg.Record]


class StandbyReads:
    """A standby is behind: it may lack frames, but what it returns is what the primary had at some moment.

    It is asked only while it is a standby of the same PostgreSQL cluster: one that was promoted goes its own way.
    """

    def __init__(self, address: PostgresAddress, settings: PoolSettings) -> None:
        self._database = Database(address, settings)
        self.system_identifier = 0
        """Of the primary's cluster; set when the storage is opened."""
        self.read_count = 0
        """Reads that a standby served."""

    @property
    def problem(self) -> str | None:
        return self._database.problem

    async def read(self, log: int, offset: int, end_offset: int, max_bytes: int, most: int) -> Rows:
        """As the statement `read` of the primary; no rows where the standby cannot or must not be asked."""
        try:
            rows = await self._database.fetch(
                "read_from_standby", log, offset, end_offset, max_bytes, most, self.system_identifier
            )
        except StorageUnavailable:
            return []
        self.read_count += bool(rows)
        return rows

    async def close(self) -> None:
        await self._database.close()
