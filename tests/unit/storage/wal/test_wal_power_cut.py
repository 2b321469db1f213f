"""Many logs, one write-ahead log, and a power cut: what was promised is there, what was removed is not."""

import asyncio
import random
from pathlib import Path

import pytest

from quiver.model.errors import PartitionOffline
from quiver.model.limits import KIB
from quiver.records.header import StampedFrame
from quiver.storage.local.log import LocalLog
from quiver.storage.local.settings import LocalSettings, LocalSystem
from quiver.storage.local.storage import LocalStorage
from quiver.storage.port import LogOptions
from quiver.testing.power_cut import PowerCutFiles
from unit.log.frames import frame_at, frame_bytes
from unit.log.logs import frames_of

OPTIONS = LogOptions(segment_bytes=40 * KIB)
SETTINGS = LocalSettings(min_free_bytes=0, sync_threads=2, wal_file_bytes=24 * KIB)


class FlakyFiles(PowerCutFiles):
    """The write-ahead log cannot be written now and then."""

    def __init__(self, root: Path, chance: random.Random) -> None:
        super().__init__(root)
        self._chance = chance
        self.is_flaky = False

    def fdatasync(self, fd: int) -> None:
        path = Path(f"/proc/self/fd/{fd}").readlink()
        if self.is_flaky and path.suffix == ".wal" and self._chance.random() < 0.2:
            raise OSError(5, "the disk has a bad day")
        super().fdatasync(fd)


async def begun_or_appended(log: LocalLog, frames: list[StampedFrame]) -> None:
    ended: asyncio.Future[Exception | None] = asyncio.get_running_loop().create_future()
    if not log.begin_append(frames, ended.set_result):
        await log.append(frames)
    elif (error := await ended) is not None:
        raise error


class Model:
    """What one log may hold after a power cut: all of `sure`, then some of `unsure`, in this order."""

    def __init__(self) -> None:
        self.sure: list[bytes] = []
        self.unsure: list[bytes] = []
        self.end_offset = 0
        self.removed: list[bytes] = []
        """Was there once, and must not come back."""

    def check(self, found: list[bytes]) -> None:
        assert found[: len(self.sure)] == self.sure
        rest = found[len(self.sure) :]
        assert rest == self.unsure[: len(rest)]


class Story:
    def __init__(self, root: Path, seed: int) -> None:
        self.chance = random.Random(seed)
        self.files = FlakyFiles(root, self.chance)
        self.storage = LocalStorage(root, SETTINGS, LocalSystem(files=self.files))
        self.models: dict[str, Model] = {f"topics/{number}/0": Model() for number in range(1, 6)}
        self.logs: dict[str, LocalLog] = {}
        self.last_topic = len(self.models)

    async def run(self) -> None:
        await self.storage.open()
        for log_id in self.models:
            self.logs[log_id] = await self.storage.open_log(log_id, OPTIONS)
        self.files.is_flaky = self.chance.random() < 0.3
        for _ in range(self.chance.randrange(40)):
            chosen = self.chance.sample(sorted(self.models), self.chance.randrange(1, 5))
            await asyncio.gather(*(self._step(log_id) for log_id in chosen))

    async def _step(self, log_id: str) -> None:
        log, model, what = self.logs[log_id], self.models[log_id], self.chance.randrange(40)
        if what == 0:
            await log.roll()
            self._all_sure(model)
        elif what == 1:
            await log.sync()
            self._all_sure(model)
        elif what == 2:
            await self._truncate(log, model)
        elif what == 3:
            await log.close()
            self.logs[log_id] = await self.storage.open_log(log_id, OPTIONS)
            self._all_sure(model)
        elif what == 4:
            await self._delete(log_id)
        else:
            await self._append(log, model)

    async def _append(self, log: LocalLog, model: Model) -> None:
        frames: list[StampedFrame] = []
        for _ in range(self.chance.randrange(1, 3)):
            size = self.chance.choice([10, 500, 500, 3_000, 30_000, 70_000])
            frames.append(frame_at(model.end_offset, body=self.chance.randbytes(size)))
            model.end_offset += 1
        sync = self.chance.random() < 0.7
        model.unsure += map(frame_bytes, frames)
        if sync and self.chance.random() < 0.5:
            await begun_or_appended(log, frames)
        else:
            await log.append(frames, sync=sync)
        if sync:
            self._all_sure(model)

    async def _delete(self, log_id: str) -> None:
        """Another topic follows: ids of topics are never used again."""
        await self.storage.delete_logs(log_id.rpartition("/")[0])
        del self.models[log_id], self.logs[log_id]
        self.last_topic += 1
        new_id = f"topics/{self.last_topic}/0"
        self.models[new_id] = Model()
        self.logs[new_id] = await self.storage.open_log(new_id, OPTIONS)

    async def _truncate(self, log: LocalLog, model: Model) -> None:
        kept = self.chance.randrange(len(model.sure) + len(model.unsure) + 1)
        while True:
            try:
                await log.truncate(log.start_offset + kept)
                break
            except PartitionOffline:
                assert self.files.is_flaky, "the write-ahead log could not be written: nothing is cut"
        model.sure = (model.sure + model.unsure)[:kept]
        model.unsure = []
        model.end_offset = log.end_offset

    def _all_sure(self, model: Model) -> None:
        model.sure += model.unsure
        model.unsure = []


@pytest.mark.parametrize("seed", range(40))
async def test_promises_of_many_logs_outlive_a_power_cut(tmp_path: Path, seed: int) -> None:
    (tmp_path / "before").mkdir()
    story = Story(tmp_path / "before", seed)
    await story.run()
    story.files.cut(tmp_path / "after", story.chance)
    await story.storage.close()

    storage = LocalStorage(tmp_path / "after", SETTINGS)
    await storage.open()
    for log_id, model in story.models.items():
        log = await storage.open_log(log_id, OPTIONS)
        model.check(await frames_of(log))
        assert not log.damage
    await storage.close()
    assert not list((tmp_path / "after" / "wal").rglob("*.wal")), "a clean stop leaves nothing to redo"
