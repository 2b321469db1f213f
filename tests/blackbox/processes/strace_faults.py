"""Faults at the system call, injected into a running broker with strace."""

import contextlib
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from blackbox.processes.broker_process import wait_until

_ATTACH_SECONDS = 20.0


class Injection:
    """Is in force while the `with` block runs; afterwards `calls` is the number of calls that were hit."""

    def __init__(self, trace: Path) -> None:
        self._trace = trace

    @property
    def calls(self) -> int:
        return sum("(INJECTED)" in line or "(DELAYED)" in line for line in self._trace.read_text().splitlines())


@contextlib.contextmanager
def inject(pid: int, fault: str, calls: str = "fsync,fdatasync") -> Iterator[Injection]:
    """`fault` as strace writes it, such as `error=EIO` or `delay_exit=300000`; skips where it is not permitted."""
    skip_without_strace()
    with tempfile.TemporaryDirectory() as directory:
        trace, messages = Path(directory) / "trace", Path(directory) / "messages"
        command = [
            "strace",
            "-f",
            "-p",
            str(pid),
            "-o",
            str(trace),
            "-e",
            f"trace={calls}",
            "-e",
            f"inject={calls}:{fault}",
        ]
        with messages.open("wb") as stderr:
            strace = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=stderr, stderr=stderr)
        try:
            wait_until(
                lambda: "attached" in messages.read_text() or strace.poll() is not None, _ATTACH_SECONDS, "strace"
            )
            if strace.poll() is not None:
                pytest.skip(f"strace cannot attach here: {messages.read_text().strip()}")
            yield Injection(trace)
        finally:
            strace.send_signal(signal.SIGINT)
            strace.wait(_ATTACH_SECONDS)


def skip_without_strace() -> None:
    if shutil.which("strace") is None:
        pytest.skip("strace is not installed")
