"""Actors as threads. One that ends with an exception is a failure of the run."""

import threading
import traceback
from collections.abc import Callable
from typing import Any

JOIN_SECONDS = 90.0


class Crew:
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

    def join(self) -> None:
        for thread in self._threads:
            thread.join(JOIN_SECONDS)
            if thread.is_alive():
                self.failures.append(f"{thread.name} does not end")
