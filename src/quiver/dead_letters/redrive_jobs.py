"""Redrives that go on by themselves, at a rate, and can be cancelled. They are in memory: a restart ends them.

Each slice is a redrive like any other, so every dead letter goes back exactly once, whatever happens to the job.
"""

import asyncio
import contextlib
import logging
from typing import Literal, NamedTuple, Protocol

import msgspec

from quiver.dead_letters.search import Search
from quiver.dead_letters.taking import DeadLettersTaken
from quiver.model.errors import JobNotFound, Overloaded, QuiverError, ShuttingDown
from quiver.model.topic import Topic
from quiver.system.clock import Clock
from quiver.system.randomness import Randomness

logger = logging.getLogger(__name__)

MOST_RUNNING = 16
_MOST_KEPT = 100
_SLICE = 1_000
_SLICES_PER_SECOND = 5

JobState = Literal["running", "done", "cancelled", "failed"]


class Redrives(Protocol):
    """What jobs consist of; see `DeadLetters`."""

    def check_redrive(self, topic: str, to: str | None) -> tuple[Topic | None, Topic | None]: ...

    async def redrive(
        self, topic: str, search: Search, *, limit: int | None = None, to: str | None = None, dry_run: bool = False
    ) -> DeadLettersTaken: ...


class RedrivePlan(NamedTuple):
    topic: str
    search: Search
    to: str | None = None
    """None: back to where each came from."""
    rate: float | None = None
    """Dead letters per second; None: as fast as they go."""
    limit: int | None = None


class JobProgress(NamedTuple):
    id: str
    plan: RedrivePlan
    state: JobState
    moved: int
    total: int | None
    """How many there were at the beginning; None until they are counted."""
    error: str | None
    started_at_ms: int
    ended_at_ms: int | None


class RedriveJob:
    def __init__(self, id: str, plan: RedrivePlan, *, clock: Clock) -> None:
        self.id = id
        self._plan = plan
        self._clock = clock
        self._state: JobState = "running"
        self._moved = 0
        self._total: int | None = None
        self._error: str | None = None
        self._started_ms = clock.now_ms()
        self._ended_ms: int | None = None
        self._stop = asyncio.Event()
        self.task: asyncio.Task[None] | None = None

    @property
    def is_running(self) -> bool:
        return self._state == "running"

    def progress(self) -> JobProgress:
        return JobProgress(
            self.id,
            self._plan,
            self._state,
            self._moved,
            self._total,
            self._error,
            self._started_ms,
            self._ended_ms,
        )

    def stop(self) -> None:
        """It ends after the slice that is under way."""
        self._stop.set()

    async def run(self, dead_letters: Redrives) -> None:
        try:
            await self._redrive(dead_letters)
            self._state = "cancelled" if self._stop.is_set() else "done"
        except QuiverError as error:
            self._state, self._error = "failed", error.message
        except Exception:
            logger.exception("redrive %s of %s failed", self.id, self._plan.topic)
            self._state, self._error = "failed", QuiverError().message
        finally:
            if self._state == "running":  # the task was cancelled
                self._state = "cancelled"
            self._ended_ms = self._clock.now_ms()

    async def _redrive(self, dead_letters: Redrives) -> None:
        plan, begun = self._plan, self._clock.monotonic()
        search = _until(plan.search, self._started_ms)
        counted = await dead_letters.redrive(plan.topic, search, limit=plan.limit, to=plan.to, dry_run=True)
        self._total = counted.dead_letter_count
        while not self._stop.is_set() and self._moved < self._total:
            taken = await dead_letters.redrive(plan.topic, search, limit=self._slice(), to=plan.to)
            self._moved += taken.dead_letter_count
            if taken.next is None:
                return
            search = search._replace(after=taken.next)
            if plan.rate is not None:
                await self._pause(begun + self._moved / plan.rate - self._clock.monotonic())

    def _slice(self) -> int:
        rate, left = self._plan.rate, (self._total or 0) - self._moved
        most = _SLICE if rate is None else max(1, min(_SLICE, int(rate / _SLICES_PER_SECOND)))
        return min(most, left)

    async def _pause(self, seconds: float) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(max(0.0, seconds)):
                await self._stop.wait()


def _until(search: Search, now_ms: int) -> Search:
    """Only what is there now: a message that fails again and comes back does not go round for ever."""
    to_ms = search.filter.to_time_ms
    bounded = msgspec.structs.replace(search.filter, to_time_ms=now_ms if to_ms is None else min(to_ms, now_ms))
    return search._replace(filter=bounded)


class RedriveJobs:
    def __init__(self, dead_letters: Redrives, *, clock: Clock, randomness: Randomness) -> None:
        self.dead_letters = dead_letters
        """Those of all processes; set while the broker is built."""
        self._clock = clock
        self._randomness = randomness
        self._jobs: dict[str, RedriveJob] = {}
        """In the order of their beginning."""
        self._is_stopped = False

    async def begin(self, plan: RedrivePlan) -> JobProgress:
        if self._is_stopped:
            raise ShuttingDown()
        if sum(job.is_running for job in self._jobs.values()) >= MOST_RUNNING:
            raise Overloaded(problem=f"{MOST_RUNNING} redrives are running")
        self.dead_letters.check_redrive(plan.topic, plan.to)
        for job in [job for job in self._jobs.values() if not job.is_running][: len(self._jobs) - _MOST_KEPT + 1]:
            del self._jobs[job.id]
        job = RedriveJob(self._randomness.token(8).hex(), plan, clock=self._clock)
        self._jobs[job.id] = job
        job.task = asyncio.get_running_loop().create_task(job.run(self.dead_letters))
        return job.progress()

    async def list(self) -> list[JobProgress]:
        """The newest first, also those that have ended: at most a hundred."""
        return [job.progress() for job in reversed(self._jobs.values())]

    async def get(self, id: str) -> JobProgress:
        return self._job(id).progress()

    async def cancel(self, id: str) -> JobProgress:
        """Returns when it has ended; what was moved until then stays moved."""
        job = self._job(id)
        job.stop()
        if job.task is not None:
            await asyncio.wait([job.task])
        return job.progress()

    async def stop(self) -> None:
        """Slices that are under way end first."""
        self._is_stopped = True
        running = [job for job in self._jobs.values() if job.is_running]
        for job in running:
            job.stop()
        await asyncio.gather(*(job.task for job in running if job.task is not None), return_exceptions=True)

    def _job(self, id: str) -> RedriveJob:
        job = self._jobs.get(id)
        if job is None:
            raise JobNotFound(job=id)
        return job
