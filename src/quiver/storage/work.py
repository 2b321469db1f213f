"""Blocking file work in a bounded pool of threads."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


class Work:
    def __init__(self, threads: int) -> None:
        self._pool = ThreadPoolExecutor(max_workers=threads, thread_name_prefix="quiver-files")

    async def run(self, call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Runs a call in a thread. A caller that is cancelled still waits: file work is never left half watched."""
        future = asyncio.wrap_future(self._pool.submit(call, *args, **kwargs))
        cancelled: asyncio.CancelledError | None = None
        while not future.done():
            try:
                await asyncio.wait([future])
            except asyncio.CancelledError as error:
                cancelled = error
        if cancelled is not None:
            future.exception()
            raise cancelled
        return future.result()

    def close(self) -> None:
        self._pool.shutdown(wait=True)
