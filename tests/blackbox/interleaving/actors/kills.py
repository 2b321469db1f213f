"""Trouble: the broker or one of its processes is killed, stopped or paused, its disk is slow, consumers die."""

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

DECK = ["kill", "kill", "stop", "supervisor", "slow", "worker", "one", "one", "one", "pause"]
"""Comes in another order each time, so that every run has all of it. `one` and `pause` are about one worker of the
broker, `worker` is about a consumer's process."""
MOST_ENDS = 4
"""Of single workers; the supervisor gives up after more within a minute."""
PAUSE_SECONDS = (0.5, 8.0)
"""Below and above the time after which workers give up a call to another one."""
SLOW_SECONDS = 2.0
SLOW_MICROSECONDS = 40_000


class Trouble:
    """The broker, whose last argument is its number of workers, is started again with one of `numbers` each time."""

    def __init__(self, world: World, broker: BrokerProcess, numbers: list[int], directory: Path) -> None:
        self._world, self._broker, self._numbers = world, broker, numbers
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
            self._deck = self._chance.sample(DECK, len(DECK))
        choice = self._fitting(self._deck.pop())
        event = self._world.recorder.begin(choice, "trouble", workers=len(self._broker.workers))
        if choice == "kill":
            self._broker.kill()
            self._start()
        elif choice == "stop":
            assert self._broker.terminate() == 0, self._broker.log_text[-4000:]
            self._start()
        elif choice == "supervisor":
            self._broker.kill_supervisor()
            self._start()
        elif choice == "pause":
            self._pause()
        elif choice == "slow" and shutil.which("strace"):
            pid = self._one()["pid"] if self._broker.workers else self._broker.pid
            with inject(pid, f"delay_exit={SLOW_MICROSECONDS}", "fdatasync"):
                self._world.quiet.wait(SLOW_SECONDS)
        elif choice == "one":
            self._broker.kill_worker(self._one()["worker"])
        elif choice == "worker":
            self._chance.choice(list(self._workers.values())).replace()
        self._world.recorder.end(event)

    def _fitting(self, choice: str) -> str:
        workers = self._broker.workers
        if choice in ("one", "pause", "supervisor") and not workers:
            return "kill"
        if choice == "one" and sum(worker["restarts"] for worker in workers) >= MOST_ENDS:
            return "supervisor"
        return choice

    def _start(self) -> None:
        self._broker.args = (*self._broker.args[:-1], str(self._chance.choice(self._numbers)))
        self._broker.start()

    def _pause(self) -> None:
        """One worker does nothing for a while, and then goes on as if nothing had happened."""
        pid = self._one()["pid"]
        os.kill(pid, signal.SIGSTOP)
        self._world.quiet.wait(self._chance.uniform(*PAUSE_SECONDS))
        os.kill(pid, signal.SIGCONT)

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
        arguments = [self._kind, self._group, self._world.http_port, self._world.address, self._world.seed, actor]
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
