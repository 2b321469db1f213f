"""The shipped program as processes, forked by one server for each process of tests (`program_server.py`)."""

import atexit
import json
import os
import select
import socket
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path

from blackbox.processes import program_server

_TESTS = Path(__file__).parents[2]


class Program:
    """A running `quiver ARGUMENTS`: what `subprocess.Popen` offers and tests use."""

    def __init__(self, arguments: Sequence[str], pid: int, status: int) -> None:
        self.args = arguments
        self.pid = pid
        self.returncode: int | None = None
        self._status = status

    def poll(self) -> int | None:
        if self.returncode is None and _is_readable(self._status, 0):
            self._end()
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        if self.returncode is None:
            if not _is_readable(self._status, timeout):
                raise subprocess.TimeoutExpired(list(self.args), timeout or 0)
            self._end()
        assert self.returncode is not None
        return self.returncode

    def _end(self) -> None:
        line = os.read(self._status, 100)
        os.close(self._status)
        assert line, "the server of programs has ended"
        self.returncode = int(line)


def _is_readable(descriptor: int, timeout: float | None) -> bool:
    poller = select.poll()
    poller.register(descriptor, select.POLLIN)
    return bool(poller.poll(None if timeout is None else timeout * 1000))


class Programs:
    """Starts programs; the server behind it is started with the first of them and ends with this process."""

    def __init__(self) -> None:
        self._socket: socket.socket | None = None
        self._turn = threading.Lock()

    def start(
        self, arguments: Sequence[str], streams: Sequence[int], environment: Mapping[str, str], *, new_session: bool
    ) -> Program:
        """`streams`: standard input, output and error. Descriptors stay the caller's."""
        request = {
            "arguments": list(arguments),
            "environment": dict(environment),
            "directory": os.getcwd(),
            "new_session": new_session,
        }
        content = json.dumps(request).encode()
        assert len(content) < program_server.REQUEST_BYTES, "too much for one message"
        status, status_of_program = os.pipe2(os.O_CLOEXEC)
        try:
            with self._turn:
                requests = self._server()
                socket.send_fds(requests, [content], [*streams, status_of_program])
                pid = int(requests.recv(100))
        finally:
            os.close(status_of_program)
        return Program(arguments, pid, status)

    def _server(self) -> socket.socket:
        if self._socket is None:
            self._socket, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            command = [sys.executable, "-m", program_server.__name__, str(other.fileno())]
            environment = {name: value for name, value in os.environ.items() if not name.startswith("QUIVER_")}
            environment |= {"PYTHONPATH": str(_TESTS)}
            server = subprocess.Popen(command, pass_fds=[other.fileno()], env=environment, start_new_session=True)
            other.close()
            atexit.register(_end, self._socket, server)
        return self._socket


def _end(requests: socket.socket, server: "subprocess.Popen[bytes]") -> None:
    requests.close()
    server.wait(10)


PROGRAMS = Programs()


def can_be_forked(environment: Mapping[str, str]) -> bool:
    """Whether nothing in an environment is for Python itself."""
    return all(os.environ.get(name) == value for name, value in environment.items() if name.startswith("PYTHON"))


def run_program(
    arguments: Sequence[str], environment: Mapping[str, str], *, stdin: bytes | None, timeout: float
) -> "subprocess.CompletedProcess[bytes]":
    """Runs a program to its end."""
    streams = [os.memfd_create(name) for name in ("stdin", "stdout", "stderr")]
    try:
        if stdin is not None:
            os.write(streams[0], stdin)
            os.lseek(streams[0], 0, os.SEEK_SET)
        program = PROGRAMS.start(arguments, streams, environment, new_session=False)
        try:
            status = program.wait(timeout)
        except subprocess.TimeoutExpired:
            os.kill(program.pid, 9)
            program.wait()
            raise
        out, err = (os.pread(each, os.fstat(each).st_size, 0) for each in streams[1:])
        return subprocess.CompletedProcess(["quiver", *arguments], status, out, err)
    finally:
        for each in streams:
            os.close(each)
