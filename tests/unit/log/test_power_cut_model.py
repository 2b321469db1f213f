"""A storage on a disk that forgets whatever was not synced: what was promised is kept, whatever part is lost."""

import asyncio
import random
from pathlib import Path

import pytest

from quiver.records.header import StampedFrame
from quiver.storage.local.settings import LocalSettings, LocalSystem
from quiver.storage.local.storage import LocalStorage
from quiver.storage.port import LogOptions
from quiver.testing.power_cut import PowerCutFiles
from unit.log.frames import frame_at, frame_bytes
from unit.log.logs import abandon, close, frames_of, open_log


class Story:
    def __init__(self, root: Path, durability: str, seed: int) -> None:
        self.chance = random.Random(seed)
        self.files = PowerCutFiles(root)
        self.storage = LocalStorage(
            root, LocalSettings(min_free_bytes=0, sync_threads=1), LocalSystem(files=self.files)
        )
        self.options = LogOptions(durability=durability, segment_bytes=32 * 1024)  # type: ignore[arg-type]
        self.appended: list[StampedFrame] = []
        self.epochs: list[int] = []
        self.sure = 0
        self.snapshots: dict[int, bytes] = {}

    async def run(self) -> None:
        await self.storage.open()
        self.epochs.append(await self.storage.next_start_epoch())
        self.log = await self.storage.open_log("topics/1/0", self.options)
        for _ in range(self.chance.randrange(40)):
            await self._step()

    async def _step(self) -> None:
        what = self.chance.randrange(12)
        if what == 0:
            await self.log.sync()
            self.sure = len(self.appended)
        elif what == 1:
            await self.log.roll()
            self.sure = len(self.appended)
        elif what == 2:
            offset = self.log.end_offset
            self.snapshots[offset] = b"state %d" % offset
            await self.log.save_snapshot(offset, self.snapshots[offset])
            self.sure = len(self.appended)
        elif what == 3 and self.snapshots:
            start = await self.log.drop_front(max(self.snapshots))
            dropped = sum(1 for frame in self.appended if frame.header.base_offset < start)
            del self.appended[:dropped]
            self.sure -= dropped
        else:
            await self._append()

    async def _append(self) -> None:
        frames, offset = [], self.log.end_offset
        for _ in range(self.chance.randrange(1, 4)):
            count, size = self.chance.randrange(1, 2_000), self.chance.choice([10, 700, 5_000])
            frames.append(frame_at(offset, count=count, body=self.chance.randbytes(size), epoch=self.epochs[-1]))
            offset += count
        await self.log.append(frames)
        self.appended += frames
        if self.options.durability == "fsync":
            self.sure = len(self.appended)


@pytest.mark.parametrize("durability", ["fsync", "interval", "memory"])
@pytest.mark.parametrize("seed", range(40))
async def test_promises_outlive_a_power_cut(tmp_path: Path, durability: str, seed: int) -> None:
    (tmp_path / "before").mkdir()
    story = Story(tmp_path / "before", durability, seed)
    await story.run()
    story.files.cut(tmp_path / "after", story.chance)
    given_out = story.log.end_offset

    storage = LocalStorage(tmp_path / "after", LocalSettings(min_free_bytes=0, sync_threads=1))
    await storage.open()
    log = await storage.open_log("topics/1/0", story.options)
    found = await frames_of(log)
    written = [frame_bytes(frame) for frame in story.appended]
    if durability == "memory":
        assert found == []
    else:
        kept = [frame for frame in found if frame in set(written)]
        assert kept == written[: len(kept)], "what is left has no gaps"
        assert len(kept) >= story.sure
        assert found[len(found) - len(kept) :] == kept, "only dropped frames may come back, in front"
    if durability != "fsync":
        assert log.end_offset >= given_out, "no offset is used twice"
    snapshot = await log.load_snapshot()
    if durability != "memory" and story.snapshots and log.start_offset > min(story.snapshots):
        assert snapshot is not None, "frames were dropped that only a snapshot remembers"
    if snapshot is not None:
        assert story.snapshots[snapshot.offset] == snapshot.data
    assert await storage.next_start_epoch() > story.epochs[-1]
    assert not log.damage
    await asyncio.gather(storage.close(), story.storage.close())


@pytest.mark.parametrize("seed", range(20))
def test_the_snapshot_that_a_log_begins_with_outlives_a_power_cut(tmp_path: Path, seed: int) -> None:
    """Nothing below it is left that would say the same, as it is after a kill that left reserved offsets only."""
    before = tmp_path / "before"
    before.mkdir()
    files = PowerCutFiles(before)
    log = open_log(before, files=files)
    log.reservation.save(log.state()._replace(reserved_offset=1_000), sync=True)
    log.skip_to(1_000)
    log.save_snapshot(1_000, b"nothing was before")
    files.cut(tmp_path / "after", random.Random(seed))
    abandon(log)
    log = open_log(tmp_path / "after")
    assert log.snapshots.newest() == (1_000, b"nothing was before")
    close(log)
