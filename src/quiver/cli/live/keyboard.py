"""Single key presses of a terminal, without Enter."""

import os
import sys
import termios
import tty
from collections.abc import Iterator
from contextlib import contextmanager


class Keyboard:
    """`fd` can be waited for with `select`; then `read` has what was typed."""

    def __init__(self, fd: int) -> None:
        self.fd = fd

    def read(self) -> str:
        """The keys that were pressed; empty when the terminal is gone."""
        try:
            return os.read(self.fd, 64).decode(errors="replace")
        except OSError:
            return ""


@contextmanager
def keyboard() -> Iterator[Keyboard]:
    """Standard input without echo and without waiting for Enter. Ctrl-C still interrupts; the end restores all."""
    fd = sys.stdin.fileno()
    before = termios.tcgetattr(fd)
    tty.setcbreak(fd)
    try:
        yield Keyboard(fd)
    finally:
        termios.tcsetattr(fd, termios.TCSADRAIN, before)
