"""Ctrl-C during bulk work: it ends a wait for input at once, and the work itself between two steps."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

EXIT_STATUS = 128 + signal.SIGINT


class Interruption:
    """The first Ctrl-C only asks for the end; a second one raises KeyboardInterrupt wherever the program is."""

    def __init__(self) -> None:
        self.requested = False
        self._is_waiting = False

    @contextmanager
    def watched(self) -> Iterator[None]:
        before = signal.signal(signal.SIGINT, self._on_signal)
        try:
            yield
        finally:
            signal.signal(signal.SIGINT, before)

    @contextmanager
    def waiting(self) -> Iterator[None]:
        """A block that already the first Ctrl-C leaves, by KeyboardInterrupt."""
        self._is_waiting = True
        try:
            if self.requested:
                raise KeyboardInterrupt
            yield
        finally:
            self._is_waiting = False

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        is_second, self.requested = self.requested, True
        if is_second or self._is_waiting:
            raise KeyboardInterrupt
