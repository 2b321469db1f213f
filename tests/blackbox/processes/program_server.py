"""Runs the shipped program in forked processes, so that hundreds of brokers and commands import it once.

A start of Python with all of Quiver's modules takes a second of processor time, a fork some milliseconds. What runs
in the fork is `quiver.__main__.main()` with its own arguments, environment, standard streams, session and exit
status, as in a new process. Programs whose environment Python itself reads, and those behind a prefix such as
strace, are started as new processes (`broker_process.py`).

A request is one message on a socket: a JSON object, and descriptors for standard input, output, error and the exit
status, which is written there as a line.
"""

import gc
import json
import os
import select
import signal
import socket
import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

REQUEST_BYTES = 200_000
DESCRIPTORS = 4


class ProgramServer:
    """Forks until its socket is closed."""

    def __init__(self, requests: socket.socket) -> None:
        self._requests = requests
        self._statuses: dict[int, int] = {}
        """By process id: where its exit status is to be written."""
        self._woken, self._wake = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)

    def serve(self) -> Callable[[], None] | None:
        """None when the socket is closed; in a forked process, the program that it is to run."""
        signal.signal(signal.SIGCHLD, _ignored)
        signal.set_wakeup_fd(self._wake, warn_on_full_buffer=False)
        while True:
            ready, _, _ = select.select([self._requests, self._woken], [], [])
            if self._woken in ready:
                os.read(self._woken, 4096)
                self._reap()
            if self._requests in ready:
                content, descriptors, _, _ = socket.recv_fds(self._requests, REQUEST_BYTES, DESCRIPTORS)
                if not content:
                    return None
                program = self._fork(json.loads(content), descriptors)
                if program is not None:
                    return program

    def _fork(self, request: dict[str, Any], descriptors: list[int]) -> Callable[[], None] | None:
        *streams, status = descriptors
        pid = os.fork()
        if pid == 0:
            return lambda: self._run(request, streams, status)
        self._statuses[pid] = status
        for descriptor in streams:
            os.close(descriptor)
        return None

    def _reap(self) -> None:
        for pid in list(self._statuses):
            found, status = os.waitpid(pid, os.WNOHANG)
            if found:
                descriptor = self._statuses.pop(pid)
                os.write(descriptor, f"{os.waitstatus_to_exitcode(status)}\n".encode())
                os.close(descriptor)

    def _run(self, request: dict[str, Any], streams: list[int], status: int) -> None:
        """In the forked process: becomes the program."""
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        if request["new_session"]:
            os.setsid()
        self._requests.send(str(os.getpid()).encode())
        for number, descriptor in enumerate(streams):
            os.dup2(descriptor, number)
        for descriptor in (self._woken, self._wake, status, *self._statuses.values(), *streams):
            os.close(descriptor)
        self._requests.close()
        os.environ.clear()
        os.environ.update(request["environment"])
        os.chdir(request["directory"])
        sys.argv = ["quiver", *request["arguments"]]
        from quiver.__main__ import main

        main()


def _ignored(number: int, frame: FrameType | None) -> None:
    """The wake-up descriptor says that a process has ended."""


def _import_program() -> None:
    import faulthandler
    import importlib

    faulthandler.enable()
    from quiver.cli.main import _Commands

    for name, command in _Commands.subcommands.items():
        if name != "pipeline":  # it loads Spark
            importlib.import_module(command.module)
    for module in ("quiver.app.serve", "quiver.app.embedded", "quiver.client._sync.client", "uvloop"):
        importlib.import_module(module)
    gc.collect()
    gc.freeze()  # so that the memory stays shared


if __name__ == "__main__":
    _import_program()
    run_program = ProgramServer(socket.socket(fileno=int(sys.argv[1]))).serve()
    if run_program is not None:
        run_program()
