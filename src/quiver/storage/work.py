"""Blocking file work in a bounded pool of threads."""

import asyncio
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


class Work:
    def __init__(self, threads: int, name: str) -> None:
        self._pool = ThreadPoolExecutor(max_workers=threads, thread_name_prefix=f"quiver-{name}")

    async def run(self, call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Runs a call in a thread. A caller that is cancelled waits for a call that has begun: what it changes is
        known when this returns."""
        job = self._pool.submit(call, *args, **kwargs)
        try:
            return await asyncio.wrap_future(job)
        except asyncio.CancelledError:
            await _until_done(job)
            raise

    def close(self) -> None:
        self._pool.shutdown(wait=True)


async def _until_done(job: Future[T]) -> None:
    while not job.done():
        try:
            await asyncio.wait([asyncio.wrap_future(job)])
        except asyncio.CancelledError:
            continue
