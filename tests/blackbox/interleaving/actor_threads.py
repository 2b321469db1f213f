"""Actors as threads. One that ends with an exception is a failure of the run."""

import sys
import threading
import time
import traceback
from collections.abc import Callable
from typing import Any

JOIN_SECONDS = 60.0


class ActorThreads:
    def __init__(self) -> None:
        self._threads: list[threading.Thread] = []
        self.failures: list[str] = []

    def start(self, run: Callable[..., Any], *arguments: Any, name: str) -> None:
        """Runs `run(*arguments)` in a thread of that name."""

        def guarded() -> None:
            try:
                run(*arguments)
            except BaseException:
                self.failures.append(f"{name} ended with:\n{traceback.format_exc()}")

        thread = threading.Thread(target=guarded, name=name, daemon=True)
        self._threads.append(thread)
        thread.start()

    def wait(self, seconds: float) -> None:
        """Until that time is over, or an actor has failed."""
        for thread in self._threads:
            thread.join(seconds)

    def join(self, seconds: float = JOIN_SECONDS) -> None:
        deadline = time.monotonic() + seconds
        for thread in self._threads:
            thread.join(max(0.0, deadline - time.monotonic()))
            if thread.is_alive():
                where = traceback.format_stack(sys._current_frames()[thread.ident or 0])
                self.failures.append(f"{thread.name} does not end, it is at:\n{''.join(where)}")
