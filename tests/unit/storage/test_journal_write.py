"""Owners that change their state first and write what they did."""

import asyncio
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from quiver.model.errors import DiskFull, PartitionOffline, QuiverError
from quiver.storage.journal import OPTIONS_FOR_WRITE, Journal
from quiver.storage.local.settings import LocalSystem
from quiver.storage.local.storage import LocalStorage
from quiver.storage.memory.storage import MemoryStorage
from quiver.storage.port import Storage
from quiver.system.clock import SystemClock
from quiver.system.files import Buffer, Files

LOG_ID = "topics/1/0-delivery"


class Owner:
    def __init__(self) -> None:
        self.records: set[str] = set()
        self.applied: list[str] = []

    async def open(self, storage: Storage) -> Journal:
        self.journal = await Journal.open(
            storage,
            LOG_ID,
            epoch=await storage.next_start_epoch(),
            clock=SystemClock(),
            restore=lambda data: self.records.update(data.decode().split()),
            apply=self._apply,
            options=OPTIONS_FOR_WRITE,
        )
        return self.journal

    async def note(self, record: str, *, sync: bool = True) -> None:
        self.records.add(record)
        try:
            await self.journal.write(record.encode(), sync=sync)
        except QuiverError:
            self.records.discard(record)
            raise

    def encode(self) -> Iterator[bytes]:
        for record in sorted(self.records):
            yield f"{record} ".encode() * 50_000

    def _apply(self, record: bytes) -> None:
        self.applied.append(record.decode())
        self.records.add(record.decode())


class FailingFiles(Files):
    """Writes or syncs of the journal fail while it is told so."""

    failing: str = ""

    def pwritev(self, fd: int, buffers: Sequence[Buffer], position: int) -> int:
        if self.failing == "write":
            raise OSError(28, "No space left on device")
        return super().pwritev(fd, buffers, position)

    def fdatasync(self, fd: int) -> None:
        if self.failing == "sync":
            raise OSError(5, "Input/output error")
        super().fdatasync(fd)


async def test_writes_are_not_applied_live_but_at_the_next_start_and_in_order() -> None:
    storage, owner = MemoryStorage(), Owner()
    await owner.open(storage)
    await asyncio.gather(*(owner.note(f"r{number:02}", sync=number % 2 == 0) for number in range(40)))
    assert owner.applied == []
    await owner.journal.close()
    again = Owner()
    await again.open(storage)
    assert again.applied == [f"r{number:02}" for number in range(40)]


async def test_a_kill_loses_nothing_that_was_written(tmp_path: Path) -> None:
    storage, owner = LocalStorage(tmp_path), Owner()
    await storage.open()
    await owner.open(storage)
    for number in range(10):
        await owner.note(f"r{number}", sync=False)
    survived = tmp_path.with_name("copy")
    _copy_files(tmp_path, survived)
    await storage.close()
    again, copied = Owner(), LocalStorage(survived)
    await copied.open()
    await again.open(copied)
    assert again.records == owner.records
    await copied.close()


async def test_what_is_written_while_a_snapshot_is_taken_is_there_afterwards(tmp_path: Path) -> None:
    storage, owner = LocalStorage(tmp_path), Owner()
    await storage.open()
    await owner.open(storage)
    for number in range(8):
        await owner.note(f"before{number}")
    saving = asyncio.create_task(owner.journal.snapshot_concurrently(owner.encode))
    while not saving.done():
        await owner.note(f"beside{len(owner.records)}", sync=False)
        await asyncio.sleep(0)
    await saving
    assert any(record.startswith("beside") for record in owner.records)
    await storage.close()
    again, reopened = Owner(), LocalStorage(tmp_path)
    await reopened.open()
    await again.open(reopened)
    assert again.records == owner.records
    assert not any(record.startswith("before") for record in again.applied)
    await reopened.close()


@pytest.mark.parametrize(("failing", "error"), [("write", DiskFull), ("sync", PartitionOffline)])
async def test_a_failed_write_is_told_and_not_found_later(
    tmp_path: Path, failing: str, error: type[QuiverError]
) -> None:
    files = FailingFiles()
    storage, owner = LocalStorage(tmp_path, system=LocalSystem(files=files)), Owner()
    await storage.open()
    await owner.open(storage)
    await owner.note("good")
    files.failing = failing
    with pytest.raises(error):
        await owner.note("bad")
    files.failing = ""
    if failing == "write":
        await owner.note("later")
        await storage.close()
        again, reopened = Owner(), LocalStorage(tmp_path)
        await reopened.open()
        await again.open(reopened)
        assert again.records == {"good", "later"}
        await reopened.close()
    else:
        with pytest.raises(error):
            await owner.note("after a failed sync")
        await storage.close()


def _copy_files(source: Path, target: Path) -> None:
    """What a killed process leaves: the files as they are now, without the lock."""
    for path in source.rglob("*"):
        if path.is_file() and path.name != "lock":
            copied = target / path.relative_to(source)
            copied.parent.mkdir(parents=True, exist_ok=True)
            copied.write_bytes(path.read_bytes())
