"""Queries of stream processors: a name, what it reads and writes, and the hash of how it works."""

import asyncio
from typing import NamedTuple

import msgspec

from quiver.gateways.queen.identifiers import random_id
from quiver.gateways.queen.records import QueenRecords
from quiver.gateways.queen.stream_state.tables import StateTables
from quiver.gateways.queen.transactions.committer import Committer

_BY_NAME, _BY_ID = "query/", "query-id/"


class Query(msgspec.Struct, frozen=True, kw_only=True):
    id: str
    name: str
    source_queue: str
    sink_queue: str | None
    config_hash: str


class Registered(NamedTuple):
    query: Query
    is_fresh: bool
    was_reset: bool


class Queries:
    def __init__(self, records: QueenRecords, tables: StateTables, committer: Committer) -> None:
        self._records = records
        self._tables = tables
        self._committer = committer
        self._registering = asyncio.Lock()

    async def find(self, query_id: str) -> Query | None:
        name = await self._records.get(_BY_ID + query_id)
        return None if name is None else await self._named(name.decode())

    async def _named(self, name: str) -> Query | None:
        row = await self._records.get(_BY_NAME + name)
        return None if row is None else msgspec.json.decode(row, type=Query)

    async def register(self, wanted: Query, *, reset: bool) -> Registered | None:
        """None if the query is known with another hash, and is not to be reset. A reset removes its state."""
        async with self._registering:
            known = await self._named(wanted.name)
            if known is not None and not reset:
                return Registered(known, False, False) if known.config_hash == wanted.config_hash else None
            query = msgspec.structs.replace(wanted, id=random_id() if known is None else known.id)
            if known is not None:
                await self._wipe(query.id)
            await self._records.put(
                {_BY_NAME + query.name: msgspec.json.encode(query), _BY_ID + query.id: query.name.encode()}
            )
            return Registered(query, known is None, known is not None)

    async def _wipe(self, query_id: str) -> None:
        gone = [
            await self._tables.push(place, key, None)
            for place in await self._tables.places(query_id)
            for key in await self._tables.rows(place)
        ]
        await self._committer.commit(gone, [])
