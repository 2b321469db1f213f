"""A Spark standalone cluster on this machine: a master and workers, started from the pyspark wheel.

The Python of its workers has the libraries that Quiver needs there, and no Quiver: that has to be shipped to them.
"""

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Iterable, Iterator
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path
from typing import Any

import pyspark

from blackbox.processes.broker_process import wait_until

SPARK_HOME = Path(pyspark.__file__).parent
START_SECONDS = 180.0
_PLACE = ("--host", "127.0.0.1", "--webui-port", "0")
_CLASSES = "org.apache.spark.deploy"
_QUICK_START = "-XX:TieredStopAtLevel=1"
"""The JVMs compile little: they do not live long."""
_LISTENING = re.compile(r"Starting Spark master at (spark://\S+)")
_NAME = re.compile(r"^[\w.-]+", re.MULTILINE)
_PAGES = re.compile(r"started at (http://\S+)")


class NodeProcess:
    """A master or worker, with all that it has started: they are a session of processes, so all are found."""

    def __init__(self, place: Path, kind: str, *args: str, **settings: str) -> None:
        self.place = place
        self.log_path = place / "node.log"
        place.mkdir(parents=True)
        command = [str(SPARK_HOME / "bin" / "spark-class"), f"{_CLASSES}.{kind}", *args]
        own = {**environment(), "SPARK_DAEMON_MEMORY": "256m", **settings}
        with self.log_path.open("wb") as log:
            self.process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=own, start_new_session=True
            )

    @property
    def log(self) -> str:
        return self.log_path.read_text(errors="replace")

    def said(self, pattern: re.Pattern[str]) -> str | None:
        assert self.process.poll() is None, self.log[-4000:]
        found = pattern.search(self.log)
        return None if found is None else found[1]

    def kill(self) -> None:
        """SIGKILL to the process and everything it has started, as if its machine had lost power."""
        while left := list(_session(self.process.pid)):
            for pid in left:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            self.process.wait()


class Worker(NodeProcess):
    """One core. Its executors write what they do into a folder for each."""

    def tasks(self, word: str) -> int:
        """How many lines of executors say that of a task: `Running` or `Finished`."""
        pattern = re.compile(rf"{word} task \d+\.\d+ in stage")
        texts = (path.read_text(errors="replace") for path in self.place.glob("work/*/*/stderr"))
        return sum(len(pattern.findall(text)) for text in texts)


class StandaloneCluster:
    """Used with `with`; nothing of it is left afterwards. The workers are on their way: see `await_workers`."""

    def __init__(self, place: Path, workers: int = 2) -> None:
        self._place = place
        self.python = _bare_python(place / "python")
        self.master = NodeProcess(place / "master", "master.Master", "--port", "0", *_PLACE)
        self.workers: list[Worker] = []
        try:
            self.url: str = wait_until(lambda: self.master.said(_LISTENING), START_SECONDS, "a master")
            self.workers = [self._worker(number) for number in range(workers)]
        except BaseException:
            self.close()
            raise

    def _worker(self, number: int) -> Worker:
        place = self._place / f"worker-{number}"
        size = ["--cores", "1", "--memory", "700m", "--work-dir", str(place / "work")]
        return Worker(place, "worker.Worker", *_PLACE, *size, self.url)

    def await_workers(self, count: int) -> None:
        """Returns when the master knows exactly so many."""
        wait_until(lambda: self.alive() == count, START_SECONDS, f"{count} workers are registered")

    def alive(self) -> int:
        """How many workers the master knows, and gets heartbeats from."""
        return sum(worker["state"] == "ALIVE" for worker in self._state()["workers"])

    def _state(self) -> dict[str, Any]:
        page = wait_until(lambda: self.master.said(_PAGES), START_SECONDS, "the page of the master")
        with urllib.request.urlopen(f"{page}/json/", timeout=10) as answer:
            return dict(json.loads(answer.read()))

    def close(self) -> None:
        for node in (*self.workers, self.master):
            node.kill()

    def __enter__(self) -> "StandaloneCluster":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def environment() -> dict[str, str]:
    """That of the tests, without settings of Spark."""
    ours = {
        name: value for name, value in os.environ.items() if not name.startswith(("SPARK_", "PYSPARK_", "PYTHONPATH"))
    }
    return {
        **ours,
        "SPARK_HOME": str(SPARK_HOME),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_DAEMON_JAVA_OPTS": "-XX:+UseSerialGC",
        "SPARK_MASTER_OPTS": "-Dspark.master.rest.enabled=false",
        "JDK_JAVA_OPTIONS": _QUICK_START,
    }


def _bare_python(place: Path) -> Path:
    """A Python with nothing but what the documents say that workers need."""
    from quiver_spark.runtime.shipping import NEEDED_ON_WORKERS

    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(place)], check=True)
    site = next(place.glob("lib/python3*/site-packages"))
    for top in {top for each in _installed(NEEDED_ON_WORKERS) for top in _top_level(each)}:
        (site / top.name).symlink_to(top)
    return place / "bin" / "python"


def _installed(names: Iterable[str]) -> Iterator[Distribution]:
    """Distributions of these names and what they need."""
    for name in names:
        with contextlib.suppress(PackageNotFoundError):
            found = distribution(name)
            yield found
            needed = [each for each in found.requires or () if "extra ==" not in each]
            yield from _installed(_NAME.findall("\n".join(needed)))


def _top_level(found: Distribution) -> Iterator[Path]:
    """The files and folders in site-packages that belong to a distribution."""
    for name in {file.parts[0] for file in found.files or ()} - {"..", "__pycache__"}:
        yield Path(str(found.locate_file(name)))


def _session(leader: int) -> Iterator[int]:
    """The processes of a session that are still there."""
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
                if int(fields[3]) == leader and fields[0] != "Z":
                    yield int(entry.name)
