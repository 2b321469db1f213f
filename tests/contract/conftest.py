"""Every engine, with every durability it knows, for the suites in this directory."""

from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from quiver.replication.settings import ReplicationSettings
from quiver.storage.local.settings import LocalSettings
from quiver.storage.local.storage import LocalStorage
from quiver.storage.memory.storage import MemoryStorage
from quiver.storage.port import LogOptions, Storage
from quiver.storage.postgres.database.address import parse_address
from quiver.storage.postgres.storage import PostgresStorage
from quiver.testing.replication.direct import ReplicaGroup

KINDS = [
    "memory-fsync",
    "replicated-fsync",
    "local-fsync",
    "local-interval",
    "local-memory",
    "postgres-fsync",
    "postgres-interval",
    "postgres-memory",
]

USING_TRUNCATION = ("test_changes_wait_for_an_append_that_is_begun", "test_a_clean_reopen_keeps_everything")


class EngineUnderTest:
    """A storage, options of one durability, and how to open the storage again after closing it."""

    def __init__(self, kind: str, root: Path, database: str | None = None) -> None:
        self.engine, durability = kind.split("-")
        self.options = LogOptions(durability=durability, segment_bytes=64 * 1024)
        self.keeps_frames_over_reopen = kind not in ("local-memory", "postgres-memory")
        self._database = database
        self._root = root
        self._memory = MemoryStorage()
        self._followers: list[Storage] = []

    async def open(self) -> Storage:
        if self.engine == "memory":
            return self._memory
        if self.engine == "replicated":
            return await self._open_replicas()
        if self._database is not None:
            postgres = PostgresStorage(parse_address(self._database))
            await postgres.open()
            return postgres
        storage = LocalStorage(self._root / "data", LocalSettings(min_free_bytes=0))
        await storage.open()
        return storage

    async def _open_replicas(self) -> Storage:
        """Three replicas, of which the first leads everything; its frames are on files, those of others in memory."""
        local = LocalStorage(self._root / "data", LocalSettings(min_free_bytes=0))
        await local.open()
        self._followers = self._followers or [MemoryStorage(), MemoryStorage()]
        group = ReplicaGroup([local, *self._followers], ReplicationSettings(checks_epochs=False))
        await group.open()
        return LeaderStorage(group, await group.lead())


class LeaderStorage:
    """That of the first node of several; they are closed together."""

    def __init__(self, group: ReplicaGroup, storage: Storage) -> None:
        self._group, self._storage = group, storage

    def __getattr__(self, name: str) -> Any:
        return getattr(self._storage, name)

    async def close(self) -> None:
        await self._group.close()


@pytest.fixture(autouse=True)
def skip_what_it_does_not_do(request: pytest.FixtureRequest) -> None:
    name = request.node.originalname
    if "[replicated-" in request.node.name and ("truncat" in name or name in USING_TRUNCATION):
        pytest.skip("what is replicated is cut by a new leader only")
    if name == "test_epochs_rise" and "[replicated-" in request.node.name:
        pytest.skip("the storage of a unit is for one start: the next one comes from the node")


@pytest.fixture(params=KINDS)
def under_test(request: pytest.FixtureRequest, tmp_path: Path) -> EngineUnderTest:
    database = request.getfixturevalue("database") if request.param.startswith("postgres") else None
    return EngineUnderTest(request.param, tmp_path, database)


@pytest.fixture
async def storage(under_test: EngineUnderTest) -> AsyncIterator[Storage]:
    storage = await under_test.open()
    yield storage
    await storage.close()


@pytest.fixture
async def reopen(under_test: EngineUnderTest) -> AsyncIterator[Callable[[Storage], Awaitable[Storage]]]:
    opened: list[Storage] = []

    async def close_and_open(storage: Storage) -> Storage:
        await storage.close()
        opened.append(await under_test.open())
        return opened[-1]

    yield close_and_open
    for storage in opened:
        await storage.close()
