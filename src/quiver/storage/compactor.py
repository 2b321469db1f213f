"""Where a pass of compaction runs: in a process of its own, or in a thread when there is little to do."""

import asyncio
import os
import sys
from collections.abc import AsyncGenerator, Callable, Iterator
from pathlib import Path
from typing import Protocol

import msgspec

from quiver.log.compaction.job import Job, Report
from quiver.log.compaction.segment_pass import run_pass
from quiver.log.compaction.source import BadFrame
from quiver.log.compaction.worker import failure
from quiver.model.errors import QuiverError
from quiver.model.limits import MIB
from quiver.system.files import Files
from quiver.system.threads import Threads

_WORKER = "quiver.log.compaction.worker"
_SHOWN_BYTES = 500
_SMALL_BYTES = 4 * MIB


class Compactor(Protocol):
    """The port: does the reading and rewriting of a pass. Putting new segments in place is the log's own work."""

    def reports(self, job: Job) -> AsyncGenerator[Report, None]:
        """Does a job, and reports how it goes. Closing the generator ends the work."""
        ...


NewCompactor = Callable[[Files, Threads], Compactor]
"""Makes the compactor of a storage, from its files and the threads for work that nobody waits for."""


class ThreadCompactor:
    """In a thread of the storage; with `InlineThreads`, on the loop."""

    def __init__(self, files: Files, threads: Threads) -> None:
        self._files = files
        self._threads = threads

    async def reports(self, job: Job) -> AsyncGenerator[Report, None]:
        steps = run_pass(job, self._files)
        while (report := await self._threads.run(_next, steps)) is not None:
            yield report


class ProcessCompactor:
    """One process at a time, at low priority."""

    def __init__(self) -> None:
        self._gate = asyncio.Semaphore(1)

    async def reports(self, job: Job) -> AsyncGenerator[Report, None]:
        async with self._gate:
            process = await asyncio.create_subprocess_exec(
                sys.executable,
                "-m",
                _WORKER,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
                env={**os.environ, "PYTHONPATH": _search_path()},
                start_new_session=True,
            )
            try:
                assert process.stdin is not None
                assert process.stdout is not None
                process.stdin.write(msgspec.json.encode(job) + b"\n")
                async for line in process.stdout:
                    yield msgspec.json.decode(line, type=Report)
                await self._check_end(process)
            finally:
                if process.returncode is None:
                    process.kill()
                await process.wait()

    async def _check_end(self, process: asyncio.subprocess.Process) -> None:
        assert process.stderr is not None
        shown = await process.stderr.read()
        if await process.wait():
            last = shown[-_SHOWN_BYTES:].decode(errors="replace").strip()
            raise QuiverError(f"the compaction process ended with {process.returncode}: {last}")


class SizedCompactor:
    """Starting a process takes longer than a few megabytes of work."""

    def __init__(self, small: Compactor, large: Compactor) -> None:
        self._small = small
        self._large = large

    def reports(self, job: Job) -> AsyncGenerator[Report, None]:
        size = sum(segment.size for segment in job.segments)
        return (self._small if size <= _SMALL_BYTES else self._large).reports(job)


def process_compactor(files: Files, threads: Threads) -> Compactor:
    """For a broker: large passes run in a process, where they do not hold the interpreter that serves clients."""
    thread = ThreadCompactor(files, threads)
    return SizedCompactor(thread, ProcessCompactor()) if sys.executable else thread


def _next(steps: Iterator[Report]) -> Report | None:
    try:
        return next(steps, None)
    except (OSError, BadFrame) as error:
        return failure(error)


def _search_path() -> str:
    """Where the new process finds this very package."""
    paths = [str(Path(__file__).parents[2]), os.environ.get("PYTHONPATH", "")]
    return os.pathsep.join(path for path in paths if path)
