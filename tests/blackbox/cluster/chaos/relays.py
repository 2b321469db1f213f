"""The process that carries the TCP of a cluster under test, as the tests use it."""

import contextlib
import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from blackbox.cluster.chaos import relay_process
from blackbox.cluster.chaos.relay_process import Edge

_TESTS = Path(__file__).parents[3]
_ENDING_SECONDS = 20.0


class RelayProcess:
    def __init__(self, log: Path) -> None:
        path = os.pathsep.join([str(_TESTS), *filter(None, [os.environ.get("PYTHONPATH")])])
        with log.open("ab") as stderr:
            self._process = subprocess.Popen(
                [sys.executable, "-m", relay_process.__name__],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=stderr,
                env={**os.environ, "PYTHONPATH": path},
            )
        self._log = log
        self._turn = threading.Lock()

    def listen(self, targets: Sequence[int], caller: str, called: str, host: str = "127.0.0.1", port: int = 0) -> int:
        """Returns the port; without a caller it is the node that opens a link."""
        return int(self._do("listen", targets=list(targets), caller=caller, called=called, host=host, port=port))

    def cut(self, edges: Iterable[Edge]) -> None:
        """What is sent over these edges arrives no more."""
        self._do("cut", edges=list(edges))

    def delay(self, edges: Iterable[Edge], seconds: float) -> None:
        self._do("delay", edges=list(edges), seconds=seconds)

    def heal(self, *, breaks: bool = False) -> int:
        """All edges are whole again. What was held arrives now, or its connections break; returns its bytes."""
        return int(self._do("heal", breaks=breaks))

    def close(self) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        with contextlib.suppress(OSError):
            self._process.stdin.close()
        try:
            self._process.wait(_ENDING_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process.stdout.close()

    def _do(self, what: str, **fields: Any) -> Any:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        with self._turn:
            self._process.stdin.write(json.dumps({"do": what, **fields}).encode() + b"\n")
            self._process.stdin.flush()
            line = self._process.stdout.readline()
        assert line, f"the relay has ended: {self._log.read_text()[-3000:]}"
        return json.loads(line)
