"""A Spark session in a process of its own: the JVM and its Python workers are gone when the measurement is over."""

import multiprocessing
import os
import time
import traceback
from collections.abc import Callable
from multiprocessing.connection import Connection
from pathlib import Path
from types import TracebackType
from typing import Any

MASTER = "local[2]"
START_SECONDS = 180


class SparkFailed(Exception):
    """What was run in the process raised an error, which this one shows, or the process died."""


class SparkProcess:
    """`run(function, ...)` calls `function(spark, ...)` there; function and result are pickled on their way."""

    def __init__(self, **conf: str) -> None:
        context = multiprocessing.get_context("spawn")
        self._connection, there = context.Pipe()
        self._process = context.Process(target=_serve, args=(there, conf))
        begin = time.monotonic()
        self._process.start()
        there.close()
        self.start_seconds = self._answer(START_SECONDS) - begin
        """From the start of a new Python until the session is there."""

    @property
    def pid(self) -> int:
        """Of the Python process; the JVM and the workers descend from it."""
        return self._process.pid or 0

    def run(self, function: Callable[..., Any], *arguments: Any, timeout: float = 900) -> Any:
        self._connection.send((function, arguments))
        return self._answer(timeout)

    def worker_peak_mb(self) -> float:
        """The largest resident size that one of the Python workers has had."""
        return max(map(_peak_kb, _descendants(self.pid)), default=0) / 1024

    def close(self) -> None:
        self._connection.close()
        self._process.join(30)
        if self._process.is_alive():
            self._process.kill()
            self._process.join()

    def __enter__(self) -> "SparkProcess":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _answer(self, seconds: float) -> Any:
        try:
            if not self._connection.poll(seconds):
                raise SparkFailed(f"no answer within {seconds:.0f} s")
            result, problem = self._connection.recv()
        except EOFError:
            raise SparkFailed("the Spark process died") from None
        if problem is not None:
            raise SparkFailed(problem)
        return result


def _serve(connection: Connection, conf: dict[str, str]) -> None:
    import quiver_spark
    from quiver_spark.runtime.class_archive import await_archives

    spark = quiver_spark.session("quiver-benchmark", master=MASTER, **conf)
    ready = time.monotonic()
    await_archives()  # it would take time from what is measured
    connection.send((ready, None))
    while True:
        try:
            function, arguments = connection.recv()
        except EOFError:
            break
        try:
            connection.send((function(spark, *arguments), None))
        except Exception:
            connection.send((None, traceback.format_exc()))
    spark.stop()


def _descendants(root: int) -> list[int]:
    children: dict[int, list[int]] = {}
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            parent = _parent(int(entry))
            children.setdefault(parent, []).append(int(entry))
    found, waiting = [], [root]
    while waiting:
        below = children.get(waiting.pop(), [])
        found += below
        waiting += below
    return found


def _parent(pid: int) -> int:
    try:
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    except OSError:
        return 0


def _peak_kb(pid: int) -> int:
    """0 for what is not a Python worker."""
    try:
        if "pyspark.daemon" not in Path(f"/proc/{pid}/cmdline").read_text():
            return 0
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) for line in lines if line.startswith("VmHWM")), 0)
