import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from quiver.model.errors import CorruptData, ShuttingDown
from quiver.storage.journal import OPTIONS, Journal
from quiver.storage.local.settings import LocalSettings
from quiver.storage.local.storage import LocalStorage
from quiver.storage.memory.storage import MemoryStorage
from quiver.system.clock import SystemClock


class Owner:
    """A state machine that remembers its records."""

    def __init__(self) -> None:
        self.records: list[str] = []

    async def open(self, storage: MemoryStorage | LocalStorage) -> Journal:
        return await Journal.open(
            storage,
            "internal/test",
            epoch=await storage.next_start_epoch(),
            clock=SystemClock(),
            restore=lambda data: self.records.extend(data.decode().split()),
            apply=lambda record: self.records.append(record.decode()),
        )

    def encode(self) -> Iterator[bytes]:
        yield from (f"{record} ".encode() for record in self.records)


async def test_records_are_applied_once_live_and_again_at_the_next_start() -> None:
    storage, owner = MemoryStorage(), Owner()
    journal = await owner.open(storage)
    offsets = await asyncio.gather(*(journal.append(f"r{i}".encode()) for i in range(20)))
    assert offsets == list(range(20))
    await journal.close()

    again = Owner()
    await (await again.open(storage)).close()
    assert again.records == owner.records == [f"r{i}" for i in range(20)]


async def test_a_snapshot_replaces_the_records_before_it() -> None:
    storage, owner = MemoryStorage(), Owner()
    journal = await owner.open(storage)
    await journal.append(b"a")
    assert journal.snapshot_due(after_seconds=0)
    await journal.snapshot(owner.encode)
    assert not journal.snapshot_due(after_seconds=0)
    await journal.append(b"b")
    await journal.close()

    again = Owner()
    await again.open(storage)
    assert again.records == ["a", "b"]


async def test_a_snapshot_that_the_log_does_not_reach_back_to_is_an_error_not_a_loss() -> None:
    storage, owner = MemoryStorage(), Owner()
    journal = await owner.open(storage)
    await journal.append(b"a")
    await journal.snapshot(owner.encode)
    await journal.append(b"b")
    log = await storage.open_log("internal/test", OPTIONS)
    await log.roll()
    await log.drop_front(log.end_offset)
    with pytest.raises(CorruptData):
        await Owner().open(storage)


async def test_a_record_that_cannot_be_applied_is_refused_and_those_after_it_are_applied() -> None:
    storage, owner = MemoryStorage(), Owner()
    journal = await owner.open(storage)
    records = [b"a", b"\xff", b"b"]
    done = asyncio.gather(*(journal.append(record) for record in records), return_exceptions=True)
    first, second, third = await asyncio.wait_for(done, 10)
    assert (first, third) == (0, 2)
    assert isinstance(second, UnicodeDecodeError)
    assert owner.records == ["a", "b"]
    await journal.close()


async def test_whoever_comes_after_the_close_is_told_that_the_broker_stops(tmp_path: Path) -> None:
    storage = LocalStorage(tmp_path, LocalSettings(min_free_bytes=0))
    await storage.open()
    journal = await Owner().open(storage)
    await journal.close()
    with pytest.raises(ShuttingDown):
        await journal.append(b"late")
    with pytest.raises(ShuttingDown):
        await journal.write(b"late", sync=True)
    await storage.close()
