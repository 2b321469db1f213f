"""A command in a terminal of its own, for tests of what is drawn and which keys it takes."""

import contextlib
import os
import pty
import re
import select
import subprocess
import termios
import time
from types import TracebackType
from typing import Any

from blackbox.processes.broker_process import QUIVER

_SECONDS = 30.0
_CONTROL = re.compile(rb"\x1b\[[0-9;?]*[A-Za-z]|\x1b[()][A-Z0-9]|\r")


class TerminalProcess:
    """`quiver ARGUMENTS` on a terminal of 120 columns and 50 lines, for a `with` block, which ends it."""

    def __init__(self, address: str, *arguments: str) -> None:
        self._screen, self._terminal = pty.openpty()
        termios.tcsetwinsize(self._terminal, (50, 120))
        environment = {name: value for name, value in os.environ.items() if not name.startswith("QUIVER_")}
        environment |= {"QUIVER_ADDRESS": address, "TERM": "xterm", "COLUMNS": "120", "LINES": "50"}
        self._before = termios.tcgetattr(self._terminal)
        self.process = subprocess.Popen(
            [str(QUIVER), *arguments],
            stdin=self._terminal,
            stdout=self._terminal,
            stderr=self._terminal,
            env=environment,
            start_new_session=True,
        )
        self._seen = b""

    def wait_for(self, text: str) -> str:
        """Everything that was drawn since the last call, up to and with the text, without colours."""
        deadline = time.monotonic() + _SECONDS
        wanted = text.encode()
        while wanted not in (plain := _CONTROL.sub(b"", self._seen)):
            left = deadline - time.monotonic()
            assert left > 0, f"{text!r} was not drawn; the last was:\n{plain[-3000:].decode(errors='replace')}"
            if select.select([self._screen], [], [], left)[0]:
                self._seen += self._read()
        before, found, after = plain.partition(wanted)
        self._seen = after
        return (before + found).decode(errors="replace")

    def press(self, keys: str) -> None:
        os.write(self._screen, keys.encode())

    def wait_exit(self) -> int:
        """The exit status; what is drawn meanwhile is read, so that the process never waits for us."""
        deadline = time.monotonic() + _SECONDS
        while self.process.poll() is None:
            assert time.monotonic() < deadline, "it did not end"
            if select.select([self._screen], [], [], 0.05)[0]:
                self._seen += self._read()
        return self.process.returncode

    @property
    def is_restored(self) -> bool:
        """Whether the terminal is as it was before the command."""
        now: list[Any] = termios.tcgetattr(self._terminal)
        return now == self._before

    def _read(self) -> bytes:
        try:
            return os.read(self._screen, 65_536)
        except OSError:
            return b""

    def __enter__(self) -> "TerminalProcess":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait(10)
        for fd in (self._screen, self._terminal):
            with contextlib.suppress(OSError):
                os.close(fd)
