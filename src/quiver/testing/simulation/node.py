"""A machine with a broker: it is started, killed, loses its power, and is started again on what its disk has left."""

from collections.abc import Callable

from quiver.cluster.placement import Placement
from quiver.storage.local.data_directory import DataDirectory
from quiver.system.randomness import SeededRandomness
from quiver.testing.simulation.system.clock import SimulatedClock
from quiver.testing.simulation.system.disk import Disk
from quiver.testing.simulation.system.files import SimulatedFiles
from quiver.testing.simulation.system.network import SimulatedNetwork
from quiver.testing.simulation.worker_process import ROOT, Inboxes, Machine, WorkerProcess
from quiver.testing.simulation.world import World

_LOOK_SECONDS = 0.01
_LONGEST_FORK_SECONDS = 0.05


class Node:
    """A broker of one or several workers. A worker that ends by itself is started again, as by the supervisor."""

    def __init__(
        self, world: World, network: SimulatedNetwork, name: str, on_error: Callable[[str], None], workers: int = 1
    ) -> None:
        self.name = name
        self.clock = SimulatedClock(world)
        self.disk = Disk(world.seeded(f"disk/{name}"))
        self.starts = self._forks = 0
        self.worker_count = workers
        self._world = world
        self._chance = world.seeded(f"supervisor/{name}")
        randomness = SeededRandomness(world.seeded(f"randomness/{name}"))
        self._machine = Machine(name, world, network, self.clock, self.disk, randomness, on_error)
        self._workers: list[WorkerProcess] = []
        """By number; none while the node is down."""
        self._inboxes = Inboxes([], [])
        self._is_stopping = False

    @property
    def is_running(self) -> bool:
        """There are processes, which may still be starting."""
        return bool(self._workers)

    @property
    def is_up(self) -> bool:
        """It is started and serves."""
        return self.is_running and not self._is_stopping and all(worker.is_up for worker in self._workers)

    def start(self) -> None:
        assert not self._workers, "it runs"
        self.starts += 1
        self._is_stopping = False
        if self.worker_count > 1:
            self._prepare()
        self._inboxes = Inboxes([[] for _ in range(self.worker_count)], [[] for _ in range(self.worker_count)])
        self._workers += [self._fork(number) for number in range(self.worker_count)]
        for worker in self._workers:
            worker.start()
        if self.worker_count > 1:
            self._world.later(_LOOK_SECONDS, self._look_after, self.starts)

    def _prepare(self) -> None:
        """What the supervisor does before it forks."""
        directory = DataDirectory(ROOT, SimulatedFiles(self.disk, self.clock, lambda: None), self.clock)
        directory.lock()
        directory.redo_all()
        directory.ensure_start_epoch()

    def _fork(self, number: int) -> WorkerProcess:
        self._forks += 1
        placement = Placement(number, self.worker_count)
        worker = WorkerProcess(self._machine, placement, self._inboxes, self._workers, self._forks)
        worker.on_file_kill = self.kill
        return worker

    def _look_after(self, start: int) -> None:
        """Forks again what has ended, until the node is down or stops."""
        if not self._workers or self._is_stopping or self.starts != start:
            return
        for number, worker in enumerate(self._workers):
            if worker.has_ended:
                self._workers[number] = again = self._fork(number)
                self._world.later(self._chance.random() * _LONGEST_FORK_SECONDS, self._start_again, again)
        self._world.later(_LOOK_SECONDS, self._look_after, start)

    def _start_again(self, worker: WorkerProcess) -> None:
        """With room on the disk: a worker that finds none does not start."""
        if worker in self._workers and not worker.has_ended and not self._is_stopping:
            self.disk.make_room()
            worker.start()

    def kill(self) -> None:
        """Like kill -9 of all its processes: what was written stays."""
        for worker in self._workers:
            worker.kill()
        self._workers.clear()

    def kill_within(self, operations: int) -> None:
        """Like `kill`, in the middle of one of the next changes to files."""
        for worker in self._workers:
            worker.files.kill_after(operations)

    def kill_worker(self, number: int) -> None:
        """Like kill -9 of one of several workers."""
        self._workers[number].kill()

    def pause_worker(self, number: int, seconds: float) -> None:
        """Like SIGSTOP, and SIGCONT later."""
        loop = self._workers[number].loop
        loop.pause()
        self._world.later(seconds, loop.resume)

    def resume_workers(self) -> None:
        for worker in self._workers:
            worker.loop.resume()

    def cut_power(self) -> None:
        """Like `kill`, and what was not synced may be lost."""
        self.kill()
        self.disk.cut_power()

    def stop(self) -> None:
        """Like SIGTERM: finishes what was accepted and ends. `is_running` says when."""
        assert self._workers, "it does not run"
        self._is_stopping = True
        for worker in self._workers:
            worker.loop.resume()
            worker.stop()
        self._world.later(_LOOK_SECONDS, self._look_for_end, list(self._workers))

    def _look_for_end(self, stopping: list[WorkerProcess]) -> None:
        if not all(worker.has_ended for worker in stopping):
            self._world.later(_LOOK_SECONDS, self._look_for_end, stopping)
        elif self._workers and self._workers[0] is stopping[0]:
            self._workers.clear()
