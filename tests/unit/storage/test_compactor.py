"""A pass in a process of its own."""

import asyncio
import contextlib
import os
import random
import signal
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from quiver.log.compaction.job import Job, Rewritten, Scope, SegmentFile, Shape, Surveyed
from quiver.model.errors import QuiverError
from quiver.storage.compactor import ProcessCompactor, ThreadCompactor
from quiver.storage.local.log import LocalLog
from quiver.storage.local.settings import LocalSettings, LocalSystem
from quiver.storage.local.storage import LocalStorage
from quiver.storage.port import LogOptions
from quiver.system.files import Files
from quiver.system.threads import ThreadPool
from unit.log.keyed import Row, everything, keyed_frame, last_of_each_key, stored_messages


@pytest.fixture
async def log(tmp_path: Path) -> AsyncIterator[LocalLog]:
    storage = LocalStorage(
        tmp_path,
        LocalSettings(min_free_bytes=0),
        LocalSystem(new_compactor=lambda files, threads: ProcessCompactor()),
    )
    await storage.open()
    log = await storage.open_log("topics/1/0", LogOptions(segment_bytes=64 * 1024))
    chance = random.Random(1)
    for _ in range(150):
        rows: list[Row] = [(b"%d" % chance.randrange(100), chance.randbytes(50)) for _ in range(20)]
        await log.append([keyed_frame(log.end_offset, rows)])
    await log.roll()
    yield log
    await storage.close()


def job_for(log: LocalLog, **options: bool) -> Job:
    segments = [SegmentFile(segment.base_offset, segment.size) for segment in log._disk.view.segments[:-1]]
    return Job(
        directory=str(log._disk.files.directory),
        segments=segments,
        scope=Scope(),
        shape=Shape(),
        seed=bytes(32),
        **options,
    )


async def test_a_process_says_what_a_thread_says(log: LocalLog) -> None:
    work = ThreadPool(1, "test")
    compactors = (ProcessCompactor(), ThreadCompactor(Files(), work))
    said = [[report async for report in compactor.reports(job_for(log))] for compactor in compactors]
    work.close()
    assert said[0] == said[1]
    assert [type(report) for report in said[0]] == [Surveyed, Rewritten]
    assert said[0][0].records_after == 100  # type: ignore[union-attr]


async def test_a_pass_in_a_process(log: LocalLog) -> None:
    before = await stored_messages(log)
    done = await log.compact(everything(log))
    assert (done.records_before, done.records_after) == (3_000, 100)
    assert await stored_messages(log) == last_of_each_key(before)


def children() -> list[int]:
    return [int(pid) for pid in Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()]


async def started() -> int:
    while True:
        for pid in children():
            with contextlib.suppress(OSError):
                if b"compaction.worker" in Path(f"/proc/{pid}/cmdline").read_bytes():
                    return pid
        await asyncio.sleep(0)


async def test_a_process_that_is_killed_changes_nothing(log: LocalLog) -> None:
    before = await stored_messages(log)
    compacting = asyncio.create_task(log.compact(everything(log)))
    os.kill(await started(), signal.SIGKILL)
    with pytest.raises(QuiverError, match="ended with -9"):
        await compacting
    assert await stored_messages(log) == before
    assert (await log.compact(everything(log))).records_after == 100


async def test_giving_up_ends_the_process(log: LocalLog) -> None:
    compacting = asyncio.create_task(log.compact(everything(log)))
    pid = await started()
    compacting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await compacting
    assert pid not in children()


async def test_the_process_ends_with_the_one_that_began_it(log: LocalLog) -> None:
    """Who is killed closes the pipe without a word."""
    waiting = "from quiver.log.compaction import worker; worker._end_with_the_other_side()"
    process = await asyncio.create_subprocess_exec(sys.executable, "-c", waiting, stdin=asyncio.subprocess.PIPE)
    assert process.stdin is not None
    process.stdin.close()
    assert await asyncio.wait_for(process.wait(), 30) == 1
