"""Callbacks for the next change."""

import logging
import threading
from collections.abc import Callable

_logger = logging.getLogger(__name__)


class Watchers:
    """Each is called once, at the next change after it was added; safe between threads.

    Add the watcher first, then check the state: a change in between calls the watcher.
    """

    __slots__ = ("_mutex", "_waiting")

    def __init__(self) -> None:
        self._mutex = threading.Lock()
        self._waiting: list[Callable[[], object]] = []

    def add(self, watcher: Callable[[], object]) -> None:
        with self._mutex:
            self._waiting.append(watcher)

    def add_until(self, is_reached: Callable[[], bool], watcher: Callable[[], object]) -> Callable[[], None]:
        """Calls the watcher at the first change after which `is_reached`; returns a function that stops it."""
        is_over = False

        def look() -> None:
            if is_over:
                return
            if is_reached():
                watcher()
            else:
                self.add(look)

        def end() -> None:
            nonlocal is_over
            is_over = True

        self.add(look)
        return end

    def changed(self) -> None:
        if not self._waiting:
            return
        with self._mutex:
            called, self._waiting = self._waiting, []
        for watcher in called:
            try:
                watcher()
            except Exception:  # a user's callback must not end the connection that called it
                _logger.exception("a callback failed")
