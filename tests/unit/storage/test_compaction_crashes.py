"""Every single file operation around compaction fails once, in every way; whoever opens the log finds it whole."""

import asyncio
import random
from pathlib import Path

import pytest

from quiver.log.compaction.replacement import NOTE
from quiver.log.compaction.segment_pass import NEW_SEGMENTS
from quiver.model.errors import DiskFull, QuiverError
from quiver.storage.local.log import LocalLog
from quiver.storage.local.settings import LocalSettings, LocalSystem
from quiver.storage.local.storage import LocalStorage
from quiver.storage.port import LogOptions
from quiver.system.files import Files
from quiver.testing.files import FailingFiles, FaultKind, Killed
from quiver.testing.power_cut import PowerCutFiles
from unit.log.keyed import Row, Stored, everything, keyed_frame, last_of_each_key, messages, stored_messages
from unit.storage.unsynced import Unsynced

OPTIONS = LogOptions(durability="fsync", segment_bytes=64 * 1024)


def storage_at(root: Path, files: Files) -> LocalStorage:
    return LocalStorage(root, LocalSettings(min_free_bytes=0, sync_threads=1), LocalSystem(files=files))


class Story:
    """A log that is filled, compacted, filled and compacted again. `acked` is what was promised."""

    def __init__(self, root: Path, files: Files) -> None:
        self.files = files
        self.storage = storage_at(root, files)
        self.acked: list[Stored] = []
        self.unsure: list[Stored] = []
        self.refusals: list[Exception] = []
        self.passes = 0

    async def run(self) -> None:
        await self.storage.open()
        self.log = await self.storage.open_log("topics/1/0", OPTIONS)
        for turn in range(2):
            for piece in range(3):
                await self._attempt(self._fill(10 * turn + piece))
            await self._attempt(self._snapshot())
            await self._attempt(self._compact())
        await self._attempt(self._fill(99))

    async def _attempt(self, step: object) -> None:
        try:
            await step  # type: ignore[misc]
        except (QuiverError, OSError) as error:
            self.refusals.append(error)

    async def _fill(self, seed: int) -> None:
        chance = random.Random(seed)
        for _ in range(2):
            if self.log.failure is not None:
                return
            rows: list[Row] = [(b"%d" % chance.randrange(12), chance.randbytes(20)) for _ in range(10)]
            rows += [(b"gone %d" % (seed % 10), b"x"), (b"gone %d" % (seed % 10), None)]
            frame = keyed_frame(self.log.end_offset, rows, time_ms=1_000 * seed)
            self.unsure = messages(bytes(frame.header_bytes) + bytes(frame.body))
            try:
                await self.log.append([frame])
            except DiskFull:
                self.unsure = []
                raise
            self.acked += self.unsure
            self.unsure = []
        await self.log.roll()

    async def _snapshot(self) -> None:
        await self.log.save_snapshot(self.log.end_offset, b"state")

    async def _compact(self) -> None:
        await self.log.compact(everything(self.log, tombstone_retention_ms=0, max_span_ms=1_000))
        self.passes += 1


def table(stored: list[Stored]) -> dict[bytes | None, bytes]:
    """What a reader that keeps the last value of each key ends up with."""
    found: dict[bytes | None, bytes] = {}
    for message in stored:
        if message.value is None:
            found.pop(message.key, None)
        else:
            found[message.key] = message.value
    return found


async def check(log: LocalLog, story: Story) -> None:
    """Nothing that was promised is missing, nothing has come back, everything is where it was."""
    found = await stored_messages(log)
    offsets = [message.offset for message in found]
    assert offsets == sorted(set(offsets))
    written = {message.offset: message for message in [*story.acked, *story.unsure]}
    assert all(written[message.offset] == message for message in found)
    has_unsure = bool(story.unsure) and story.unsure[0].offset in offsets
    assert table(found) == table(story.acked + (story.unsure if has_unsure else []))
    assert log.start_offset == 0
    assert log.end_offset >= (story.acked[-1].offset + 1 if story.acked else 0)
    assert not log.damage


async def check_reopened(root: Path, story: Story) -> None:
    storage = storage_at(root, Unsynced())
    await storage.open()
    log = await storage.open_log("topics/1/0", OPTIONS)
    names = {path.name for path in (root / "logs/topics/1/0").iterdir()}
    assert not names & {NOTE, NEW_SEGMENTS}
    await check(log, story)
    expected = last_of_each_key(await stored_messages(log))
    await log.roll()
    await log.compact(everything(log, tombstone_retention_ms=0))
    assert await stored_messages(log) == [message for message in expected if message.value is not None]
    await log.append([keyed_frame(log.end_offset, [(b"new", b"1")], time_ms=10**6)])
    assert (await stored_messages(log))[-1].key == b"new"
    await storage.close()


async def operations(root: Path) -> range:
    """The numbers of the operations from the first pass to the end of the second."""
    files = FailingFiles()
    story = Story(root, files)
    await story.run()
    assert not story.refusals
    assert story.passes == 2
    await check(story.log, story)
    await story.storage.close()
    begin = files.operations.index("make_directory", files.operations.index("create"))
    return range(begin - 5, len(files.operations) - 5)


@pytest.mark.parametrize("kind", ["error", "short_write", "kill"])
async def test_every_operation_may_fail(tmp_path: Path, kind: FaultKind) -> None:
    for number in await operations(tmp_path / "whole"):
        root = tmp_path / f"{kind}-{number}"
        story = Story(root, FailingFiles(fail_at=number, kind=kind))
        try:
            await story.run()
        except Killed:
            pass
        except (OSError, QuiverError):
            continue  # it did not even open
        else:
            await check(story.log, story)
        await let_go(story)
        await check_reopened(root, story)


async def let_go(story: Story) -> None:
    """What a kill leaves: files as they are, and no lock."""
    story.storage.resources.flusher._task.cancel()
    for log in story.storage._logs.values():
        log._disk.files.open_files.files = FailingFiles()
        log._disk.files.forget()
    for work in (story.storage.resources.writes, story.storage.resources.reads, story.storage.resources.background):
        work.close()
    if story.storage._lock_fd >= 0:
        Files().close(story.storage._lock_fd)


@pytest.mark.parametrize("seed", range(80))
async def test_a_power_cut_in_the_middle(tmp_path: Path, seed: int) -> None:
    """The disk keeps any part of what was not synced, at each operation of either pass."""
    chance = random.Random(seed)
    (tmp_path / "before").mkdir()
    files = CutShort(tmp_path / "before", 1 + seed % 40, seed // 40)
    story = Story(tmp_path / "before", files)
    try:
        await story.run()
    except Killed:
        files.cut(tmp_path / "after", chance)
        await let_go(story)
        await check_reopened(tmp_path / "after", story)
    else:
        assert files.left > 0, "the pass was over by then"
        await story.storage.close()


class CutShort(PowerCutFiles):
    """The power goes when so many operations are over since new segments were begun for the n-th time."""

    def __init__(self, root: Path, left: int, begin: int) -> None:
        super().__init__(root)
        self.left = left
        self._begin = begin

    def make_directory(self, path: Path) -> None:
        self._begin -= path.name == NEW_SEGMENTS
        super().make_directory(path)

    def _spend(self) -> None:
        self.left -= self._begin < 0
        if self.left <= 0:
            raise Killed

    def pwritev(self, fd: int, buffers, position: int) -> int:  # type: ignore[no-untyped-def]
        self._spend()
        return super().pwritev(fd, buffers, position)

    def fdatasync(self, fd: int) -> None:
        self._spend()
        super().fdatasync(fd)

    def sync_directory(self, path: Path) -> None:
        self._spend()
        super().sync_directory(path)

    def remove(self, path: Path) -> None:
        self._spend()
        super().remove(path)

    def rename(self, source: Path, target: Path) -> None:
        self._spend()
        super().rename(source, target)


async def test_a_pass_that_could_not_be_finished_waits_for_the_next_start(tmp_path: Path) -> None:
    files = FailingFiles()
    story = Story(tmp_path / "data", files)
    await story.storage.open()
    story.log = await story.storage.open_log("topics/1/0", OPTIONS)
    for piece in range(3):
        await story._fill(piece)

    def refuse(path: Path) -> None:
        if path.suffix == ".log":
            raise OSError(5, "input/output error")
        Files.remove(files, path)

    files.remove = refuse  # type: ignore[method-assign]
    with pytest.raises(QuiverError):
        await story._compact()
    await check(story.log, story)
    await story._fill(3)
    with pytest.raises(QuiverError, match="when the broker starts again"):
        await story._compact()
    await check(story.log, story)
    await story.storage.close()
    await check_reopened(tmp_path / "data", story)


async def test_closing_ends_a_pass(tmp_path: Path) -> None:
    story = Story(tmp_path / "data", Files())
    await story.storage.open()
    story.log = await story.storage.open_log("topics/1/0", OPTIONS)
    for piece in range(3):
        await story._fill(piece)
    compacting = asyncio.create_task(story._compact())
    await asyncio.sleep(0)
    await story.storage.close()
    with pytest.raises(QuiverError):
        await compacting
    await check_reopened(tmp_path / "data", story)
