"""Snapshots of a log: rows of a table, or in memory where its frames are."""

from quiver.log.snapshots import SNAPSHOTS_KEPT
from quiver.model.errors import StaleEpoch
from quiver.storage.memory.snapshots import MemorySnapshots
from quiver.storage.port import Snapshot
from quiver.storage.postgres.appending.state import PostgresLogState
from quiver.storage.postgres.database.database import Database
from quiver.storage.postgres.database.statements import sql


class PostgresSnapshots:
    def __init__(self, state: PostgresLogState, database: Database) -> None:
        self._state = state
        self._database = database
        self._memory = MemorySnapshots()
        self._refused: dict[int, str] = {}

    @property
    def problems(self) -> list[str]:
        return list(self._refused.values())

    async def save(self, offset: int, data: bytes, *, in_memory: bool) -> None:
        self._refused.pop(offset, None)
        if in_memory:
            self._memory.save(offset, data)
            return
        state = self._state
        async with self._database.transaction() as connection:
            if not await connection.fetch(sql("save_snapshot"), state.id, state.owner_epoch, offset, data):
                raise StaleEpoch(epoch=state.owner_epoch, current="that of another broker")
            await connection.execute(sql("delete_old_snapshots"), state.id, SNAPSHOTS_KEPT)

    async def newest(self, end_offset: int) -> Snapshot | None:
        in_memory = self._memory.newest(end_offset)
        if in_memory is not None:
            return in_memory
        row = await self._database.fetch_row("load_snapshot", self._state.id, end_offset, list(self._refused))
        return None if row is None else Snapshot(row[0], row[1])

    def refuse(self, offset: int, problem: str) -> None:
        self._memory.remove(offset)
        self._refused[offset] = f"the snapshot at {offset} is not used: {problem}"

    def remove_above(self, offset: int) -> None:
        """The rows are deleted with the frames."""
        self._memory.remove_above(offset)
