"""Trouble: the broker is killed, stopped and started again, its disk is slow for a while, workers are killed."""

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

from blackbox.interleaving.actors import worker_process
from blackbox.interleaving.scenario import World
from blackbox.processes.broker_process import BrokerProcess
from blackbox.processes.strace_faults import inject

DECK = ["kill", "kill", "stop", "slow", "worker", "worker"]
"""Comes in another order each time, so that every run has all of it."""
DECK_OF_WORKERS = ["kill", "stop", "slow", "worker", "one", "one", "one", "one"]
"""The same for a broker with several workers, of which one is killed."""
SLOW_SECONDS = 2.0
SLOW_MICROSECONDS = 40_000


class Trouble:
    def __init__(self, world: World, broker: BrokerProcess, directory: Path) -> None:
        self._world, self._broker = world, broker
        self._chance = world.chance("trouble")
        self._deck: list[str] = []
        self._workers = {
            kind: WorkerProcess(world, kind, group, directory)
            for kind, group in (("queue", "lanes"), ("stream", "readers"))
        }

    def run(self) -> None:
        try:
            for worker in self._workers.values():
                worker.start()
            while not self._world.quiet.wait(self._chance.uniform(1, 5)):
                self._cause()
        finally:
            for worker in self._workers.values():
                worker.stop()

    def _cause(self) -> None:
        if not self._deck:
            deck = DECK_OF_WORKERS if self._broker.workers else DECK
            self._deck = self._chance.sample(deck, len(deck))
        choice = self._deck.pop()
        event = self._world.recorder.begin(choice, "trouble")
        if choice == "kill":
            self._broker.restart(kill=True)
        elif choice == "stop":
            self._broker.restart()
        elif choice == "slow" and shutil.which("strace"):
            pid = self._one()["pid"] if self._broker.workers else self._broker.pid
            with inject(pid, f"delay_exit={SLOW_MICROSECONDS}", "fdatasync"):
                self._world.quiet.wait(SLOW_SECONDS)
        elif choice == "one":
            self._broker.kill_worker(self._one()["worker"])
        elif choice == "worker":
            self._chance.choice(list(self._workers.values())).replace()
        self._world.recorder.end(event)

    def _one(self) -> dict[str, int]:
        return self._chance.choice(self._broker.workers)


class WorkerProcess:
    """A worker that can be killed as a process can; the next one goes on in its place."""

    def __init__(self, world: World, kind: str, group: str, directory: Path) -> None:
        self._world, self._kind, self._group, self._directory = world, kind, group, directory
        self._count = 0
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        self._count += 1
        actor = f"{self._kind}-process-{self._count}"
        arguments = [self._kind, self._group, self._world.http_port, self._world.native_port, self._world.seed, actor]
        command = [sys.executable, "-m", worker_process.__name__, *map(str, arguments), str(self._directory)]
        path = os.pathsep.join([str(Path(__file__).parents[3]), *filter(None, [os.environ.get("PYTHONPATH")])])
        with (self._directory / f"{actor}.log").open("wb") as log:
            self._process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env={**os.environ, "PYTHONPATH": path}
            )

    def replace(self) -> None:
        assert self._process is not None
        self._process.kill()
        self._process.wait()
        self.start()

    def stop(self) -> None:
        """It gives back what it holds; one that has ended by itself has failed."""
        if self._process is None:
            return
        self._process.send_signal(signal.SIGTERM)
        try:
            status = self._process.wait(60)
        finally:
            self._process.kill()
            self._process.wait()
        if status not in (0, -signal.SIGTERM):  # the signal may come before its handler
            log = self._directory / f"{self._kind}-process-{self._count}.log"
            raise AssertionError(f"{self._kind} process ended with {status}:\n{log.read_text()[-3000:]}")
