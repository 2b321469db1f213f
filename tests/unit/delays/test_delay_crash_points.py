"""The broker dies at every single file operation of a partition with delays; afterwards everything is as promised."""

import asyncio
import os
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from quiver.delays.partition import log_rewrite
from quiver.model.errors import QuiverError
from quiver.model.topic import TopicConfig
from quiver.storage.local.settings import LocalSettings, LocalSystem
from quiver.storage.local.storage import LocalStorage
from quiver.testing.files import FailingFiles, FaultKind
from unit.delays.delay_bench import Bench, HandClock
from unit.storage.unsynced import Unsynced

CONFIG = TopicConfig(segment_bytes=64 * 1024)
FAR_MS = 50_000


class DyingFiles(FailingFiles):
    """Tells when the operation that fails has come."""

    on_fault: Callable[[], object]

    def _count(self, name: str) -> bool:
        is_fault = super()._count(name)
        if is_fault:
            self.on_fault()
        return is_fault


class Story:
    """Messages that come, are cancelled and leave, and what was promised about them."""

    def __init__(self, clock: HandClock) -> None:
        self.clock = clock
        self.due_ms: dict[bytes, int] = {}
        self.scheduled: dict[bytes, int] = {}
        """Ids of what was answered, by value."""
        self.cancelling: set[bytes] = set()
        self.cancelled: set[bytes] = set()
        self.refusals = 0

    async def run(self, storage: LocalStorage) -> None:
        bench = await Bench.open(storage, self.clock, CONFIG)
        for turn in range(3):
            for step in (
                lambda turn=turn: self.schedule(bench, turn),
                lambda turn=turn: self.cancel(bench, turn),
                lambda: bench.pass_time(25),
                bench.delays.maintain,
                bench.delays._snapshot,
            ):
                try:
                    await step()
                except (QuiverError, OSError):
                    self.refusals += 1
        await bench.close()

    async def schedule(self, bench: Bench, turn: int) -> None:
        delays = {b"%d-near" % turn: 20, b"%d-no" % turn: 40, b"%d-far" % turn: FAR_MS, b"%d-fill" % turn: 10}
        fill = b"-" + b"x" * 30_000
        values = [name + (fill if name.endswith(b"fill") else b"") for name in delays]
        self.due_ms |= {value: self.clock.now + delay for value, delay in zip(values, delays.values(), strict=True)}
        base = await bench.schedule_frame(values, list(delays.values()))
        self.scheduled |= {value: base + index for index, value in enumerate(values)}
        single = b"%d-single" % turn
        self.due_ms[single] = self.clock.now + 15
        self.scheduled[single] = await bench.schedule(single, 15)

    async def cancel(self, bench: Bench, turn: int) -> None:
        value = b"%d-no" % turn
        if value in self.scheduled:
            self.cancelling.add(value)
            assert await bench.delays.cancel([self.scheduled[value]])
            self.cancelled.add(value)

    async def check(self, storage: LocalStorage) -> None:
        """After a start on files that work, and long enough for everything to be due."""
        bench = await Bench.open(storage, self.clock, CONFIG)
        await bench.arrived()
        await bench.pass_time(10 * FAR_MS)
        found = Counter(await bench.values())
        assert not [value for value, count in found.items() if count > 1]
        assert not self.cancelled & set(found)
        assert set(self.scheduled) - self.cancelling <= set(found) <= set(self.due_ms)
        for frame in await bench.frames():
            for value in frame.values():
                assert self.due_ms[value] <= frame.header.append_time_ms
        await bench.close()


async def live(story: Story, directory: Path, files: DyingFiles) -> None:
    """Runs a story until it ends or the process would."""
    loop, fault = asyncio.get_running_loop(), asyncio.Event()
    files.on_fault = lambda: loop.call_soon_threadsafe(fault.set) if files.kind == "kill" else None
    before = asyncio.all_tasks()
    storage = LocalStorage(directory, LocalSettings(min_free_bytes=0), LocalSystem(files=files))
    running = asyncio.ensure_future(_whole(story, storage))
    death = asyncio.ensure_future(fault.wait())
    await asyncio.wait({running, death}, return_when=asyncio.FIRST_COMPLETED)
    left = asyncio.all_tasks() - before
    for task in left:
        task.cancel()
    await asyncio.gather(*left, return_exceptions=True)
    for work in (storage.resources.writes, storage.resources.reads, storage.resources.background):
        work.close()
    if storage._lock_fd >= 0:
        os.close(storage._lock_fd)


async def _whole(story: Story, storage: LocalStorage) -> None:
    await storage.open()
    await story.run(storage)
    await storage.close()


async def check(story: Story, directory: Path) -> None:
    storage = LocalStorage(directory, LocalSettings(min_free_bytes=0), LocalSystem(files=Unsynced()))
    await storage.open()
    await story.check(storage)
    await storage.close()


@pytest.mark.parametrize("kind", ["kill", "no_space"])
async def test_every_operation_may_be_the_last(
    tmp_path: Path, kind: FaultKind, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(log_rewrite, "_SMALL_LOG_BYTES", 40_000)
    counting, whole = DyingFiles(), Story(HandClock())
    await live(whole, tmp_path / "whole", counting)
    assert not whole.refusals
    assert len(whole.scheduled) == 15
    await check(whole, tmp_path / "whole")
    total = len(counting.operations)
    assert {"pwritev", "fdatasync", "create", "remove", "rename"} <= set(counting.operations)
    caplog.clear()
    for number in range(1, total + 1):
        story, directory = Story(HandClock()), tmp_path / f"{kind}-{number}"
        await live(story, directory, DyingFiles(fail_at=number, kind=kind))
        await check(story, directory)
