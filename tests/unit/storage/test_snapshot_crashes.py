"""Every single file operation around snapshots fails once, in every way; whoever opens the journal finds it whole.

Both ways to use a journal are here. Segments are so small that each snapshot lets some of them go.
"""

import random
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from threading import RLock
from typing import NamedTuple

import msgspec
import pytest

from quiver.model.errors import QuiverError
from quiver.storage.journal import OPTIONS, OPTIONS_FOR_WRITE, Journal
from quiver.storage.local.settings import LocalSettings, LocalSystem
from quiver.storage.local.storage import LocalStorage
from quiver.system.clock import SystemClock
from quiver.system.files import Buffer, Files
from quiver.testing.files import FailingFiles, FaultKind
from quiver.testing.power_cut import PowerCutFiles
from unit.storage.unsynced import Unsynced

LOG_ID = "internal/test"
ROUNDS = 4
RECORDS = 4


class Owner:
    """A state machine that counts how often it saw each number; a journal that is whole has each of them once."""

    def __init__(self, root: Path, files: Files, *, writes: bool) -> None:
        self.storage = LocalStorage(root, LocalSettings(min_free_bytes=0, sync_threads=1), LocalSystem(files=files))
        self.writes = writes
        self.seen: dict[int, int] = {}
        self.sure: list[int] = []
        """What was answered."""
        self.unsure: list[int] = []
        """What may be there or not: the broker was killed before it was answered, or the sync failed."""
        self.saves = 0

    async def open(self) -> None:
        await self.storage.open()
        options = msgspec.structs.replace(OPTIONS_FOR_WRITE if self.writes else OPTIONS, segment_bytes=512)
        self.journal = await Journal.open(
            self.storage,
            LOG_ID,
            epoch=1,
            clock=SystemClock(),
            restore=self._restore,
            apply=self._apply,
            options=options,
        )

    async def live(self) -> None:
        for turn in range(ROUNDS):
            for number in range(turn * RECORDS, (turn + 1) * RECORDS):
                await self.note(number)
            try:
                await self.save()
                self.saves += 1
            except (QuiverError, OSError):
                pass

    async def note(self, number: int) -> None:
        record = b"%d" % number
        self.unsure.append(number)
        try:
            if self.writes:
                self._apply(record)
                await self.journal.write(record, sync=True)
            else:
                await self.journal.append(record)
        except (QuiverError, OSError):
            if self.writes:
                self.seen.pop(number)
            return
        self.unsure.remove(number)
        self.sure.append(number)

    async def save(self) -> None:
        if self.writes:
            await self.journal.snapshot_concurrently(self.encode)
        else:
            await self.journal.snapshot(self.encode)

    def encode(self) -> Iterator[bytes]:
        yield from (b"%d " % number for number in self.seen)

    def _restore(self, data: bytes) -> None:
        self.seen = {int(number): 1 for number in data.split()}

    def _apply(self, record: bytes) -> None:
        number = int(record)
        if self.writes:
            self.seen[number] = 1
        else:
            self.seen[number] = self.seen.get(number, 0) + 1

    def let_go(self) -> None:
        """What a kill leaves: files as they are, and no lock."""
        self.storage.resources.flusher._task.cancel()
        for log in self.storage._logs.values():
            log._disk.files.forget()
        for work in (self.storage.resources.writes, self.storage.resources.reads, self.storage.resources.background):
            work.close()
        if self.storage._lock_fd >= 0:
            Files().close(self.storage._lock_fd)


async def check(root: Path, before: "Owner | Moment") -> None:
    """Opens the journal twice, and takes snapshots in between."""
    for _ in range(2):
        after = Owner(root, Unsynced(), writes=before.writes)
        await after.open()
        assert set(after.seen.values()) <= {1}
        assert set(before.sure) <= set(after.seen) <= {*before.sure, *before.unsure}
        for number in range(2):
            await after.note(1_000 + number)
            await after.save()
        before.unsure.extend(after.sure)
        await after.storage.close()


async def operations(root: Path, *, writes: bool) -> range:
    """The numbers of those from the first snapshot on."""
    files = FailingFiles()
    owner = Owner(root, files, writes=writes)
    await owner.open()
    await owner.live()
    assert owner.saves == ROUNDS
    assert owner.journal._log.start_offset > 0, "no front was dropped"
    await owner.storage.close()
    return range(files.operations.index("rename"), len(files.operations))


@pytest.mark.parametrize("kind", ["error", "short_write"])
@pytest.mark.parametrize("writes", [False, True])
async def test_every_operation_may_fail(tmp_path: Path, kind: FaultKind, writes: bool) -> None:
    for number in await operations(tmp_path / "whole", writes=writes):
        root = tmp_path / str(number)
        owner = Owner(root, FailingFiles(fail_at=number, kind=kind), writes=writes)
        await owner.open()
        await owner.live()
        owner.let_go()
        await check(root, owner)


class Moment(NamedTuple):
    """What was answered, and what was asked for, when the process or the power was gone."""

    sure: list[int]
    unsure: list[int]
    writes: bool


@pytest.mark.parametrize("is_power_cut", [False, True])
@pytest.mark.parametrize("writes", [False, True])
async def test_an_end_at_every_operation(tmp_path: Path, is_power_cut: bool, writes: bool) -> None:
    """A killed process leaves the files as they are; a power cut any part of what was not synced."""
    (tmp_path / "data").mkdir()
    files = EndingFiles(tmp_path / "data", tmp_path, is_power_cut=is_power_cut)
    owner = files.owner = Owner(tmp_path / "data", files, writes=writes)
    await owner.open()
    await owner.live()
    files.owner = None
    await owner.storage.close()
    assert len(files.moments) > 50
    for number, moment in enumerate(files.moments):
        await check(tmp_path / str(number), moment)


class EndingFiles(PowerCutFiles):
    """Keeps what would be left if it ended before each operation, from the first snapshot on."""

    def __init__(self, root: Path, target: Path, *, is_power_cut: bool) -> None:
        super().__init__(root)
        self._data = root
        self._target = target
        self._is_power_cut = is_power_cut
        self._lock = RLock()
        self._has_begun = False
        self.owner: Owner | None = None
        self.moments: list[Moment] = []

    def _keep(self) -> None:
        if self.owner is None or not self._has_begun:
            return
        target, chance = self._target / str(len(self.moments)), random.Random(len(self.moments))
        if self._is_power_cut:
            self.cut(target, chance)
        else:
            shutil.copytree(self._data, target)
        self.moments.append(Moment(list(self.owner.sure), list(self.owner.unsure), self.owner.writes))

    def pwritev(self, fd: int, buffers: Sequence[Buffer], position: int) -> int:
        with self._lock:
            self._keep()
            return super().pwritev(fd, buffers, position)

    def fdatasync(self, fd: int) -> None:
        with self._lock:
            self._keep()
            super().fdatasync(fd)

    def sync_directory(self, path: Path) -> None:
        with self._lock:
            self._keep()
            super().sync_directory(path)

    def rename(self, source: Path, target: Path) -> None:
        with self._lock:
            self._has_begun = self._has_begun or target.suffix == ".snapshot"
            self._keep()
            super().rename(source, target)

    def remove(self, path: Path) -> None:
        with self._lock:
            self._keep()
            super().remove(path)

    def open(self, path: Path, *, create: bool = False) -> int:
        with self._lock:
            return super().open(path, create=create)
