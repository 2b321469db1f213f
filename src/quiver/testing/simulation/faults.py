"""Faults when the seed says so: crashes, power cuts, broken connections, slow disks and networks, clock steps."""

import random
from collections.abc import Callable, Sequence
from functools import partial

from quiver.testing.simulation.history import History
from quiver.testing.simulation.node import Node
from quiver.testing.simulation.processes import Processes
from quiver.testing.simulation.system.network import SimulatedNetwork
from quiver.testing.simulation.world import World

_LONGEST_DOWN_SECONDS = 4.0
_LONGEST_SLOW_SECONDS = 5.0
_LONGEST_FULL_SECONDS = 5.0
_LONGEST_PAUSED_SECONDS = 10.0
_FORK_SECONDS = 1.0
"""Until a worker that was killed is back."""
_LITTLE_BYTES = 1 << 20


class Faults:
    """Each seed has some kinds of faults, and its own pace."""

    def __init__(
        self,
        world: World,
        network: SimulatedNetwork,
        history: History,
        nodes: Sequence[Node],
        processes: Processes,
    ) -> None:
        self._world, self._network, self._history = world, network, history
        self._nodes, self._processes = nodes, processes
        self._chance: random.Random = world.seeded("faults")
        self._is_over = False
        kinds: list[Callable[[Node], None]] = [
            self._kill, self._kill_within, self._cut_power, self._stop,
            self._cut_connection, self._slow_disk, self._slow_network, self._kill_client, self._step_clock,
            self._fill_disk,
        ]  # fmt: skip
        if any(node.worker_count > 1 for node in nodes):
            kinds += [self._kill_worker, self._kill_worker, self._pause_worker]
        self._kinds = [kind for kind in kinds if self._chance.random() < 0.6]
        self._longest_pause = self._chance.choice([1.0, 4.0, 10.0])

    @property
    def cuts_power(self) -> bool:
        return self._cut_power in self._kinds

    def begin(self) -> None:
        self._next()

    def end(self) -> None:
        """No more of them: what is down comes up, what is slow is fast again."""
        self._is_over = True
        self._network.slowness = 1.0
        for node in self._nodes:
            node.disk.slowness = 1.0
            self._make_room(node)
            node.clock.step(0)
            node.kill_within(1 << 40)
            node.resume_workers()
            self._start(node)

    def _next(self) -> None:
        if not self._is_over and self._kinds:
            self._world.later(self._chance.random() * self._longest_pause, self._strike)

    def _strike(self) -> None:
        if not self._is_over:
            self._chance.choice(self._kinds)(self._chance.choice(self._nodes))
            self._next()

    def _start(self, node: Node) -> None:
        """With room on its disk: a broker that finds none does not start."""
        if not node.is_running:
            node.disk.make_room()
            node.start()

    def _down(self, node: Node) -> None:
        self._world.later(self._chance.random() * _LONGEST_DOWN_SECONDS, self._start, node)

    def _kill(self, node: Node) -> None:
        if node.is_running:
            self._history.fault("kill", node=node.name)
            node.kill()
            self._down(node)

    def _kill_worker(self, node: Node) -> None:
        """One of several: a broker of one worker has no supervisor."""
        if node.is_running and node.worker_count > 1:
            worker = self._chance.randrange(node.worker_count)
            self._history.fault("worker killed", lasts_seconds=_FORK_SECONDS, node=node.name, worker=worker)
            node.kill_worker(worker)

    def _pause_worker(self, node: Node) -> None:
        if node.is_up and node.worker_count > 1:
            worker = self._chance.randrange(node.worker_count)
            seconds = self._chance.random() * _LONGEST_PAUSED_SECONDS
            self._history.fault("worker paused", lasts_seconds=seconds, node=node.name, worker=worker)
            node.pause_worker(worker, seconds)

    def _kill_within(self, node: Node) -> None:
        """Ends in the middle of a change to files; it is looked after until that has happened."""
        if node.is_running:
            node.kill_within(self._chance.randint(1, 30))
            self._watch(node, node.starts)

    def _watch(self, node: Node, starts: int) -> None:
        if node.is_running and node.starts == starts and not self._is_over:
            self._world.later(0.05, self._watch, node, starts)
        elif not node.is_running:
            self._history.fault("killed at a file operation", node=node.name)
            if self.cuts_power and self._chance.random() < 0.5:
                node.disk.cut_power()
            self._down(node)

    def _cut_power(self, node: Node) -> None:
        if node.is_running:
            self._history.fault("power cut", node=node.name)
            node.cut_power()
            self._down(node)

    def _stop(self, node: Node) -> None:
        if node.is_up:
            self._history.fault("stop", node=node.name)
            node.stop()
            self._watch_stop(node, node.starts)

    def _watch_stop(self, node: Node, starts: int) -> None:
        if node.is_running and node.starts == starts:
            self._world.later(0.05, self._watch_stop, node, starts)
        elif not node.is_running:
            self._history.fault("stopped", node=node.name)
            self._down(node)

    def _cut_connection(self, node: Node) -> None:
        for _ in range(self._chance.choice([1, 1, 1, 5, 30])):
            if self._network.cut_one():
                self._history.fault("connection cut")

    def _slow_disk(self, node: Node) -> None:
        node.disk.slowness = self._chance.choice([10.0, 100.0, 500.0])
        self._history.saw("slow disk", "world", node=node.name, times=node.disk.slowness)
        self._world.later(self._chance.random() * _LONGEST_SLOW_SECONDS, self._fast_disk, node)

    def _fast_disk(self, node: Node) -> None:
        node.disk.slowness = 1.0

    def _fill_disk(self, node: Node) -> None:
        """Little is free, which the broker sees, or a write fails, soon and without a warning."""
        if not node.is_up:
            return
        self._history.fault("disk full", node=node.name)
        if self._chance.random() < 0.5:
            node.disk.free_bytes = _LITTLE_BYTES
        else:
            node.disk.room_bytes = self._chance.choice([0, 100, 20_000])
        self._world.later(self._chance.random() * _LONGEST_FULL_SECONDS, partial(self._make_room, node))

    def _make_room(self, node: Node) -> None:
        """Requests that were refused until now are sent again."""
        node.disk.make_room()
        self._history.fault("disk has room", node=node.name)

    def _slow_network(self, node: Node) -> None:
        self._network.slowness = self._chance.choice([10.0, 100.0])
        self._history.saw("slow network", "world", times=self._network.slowness)
        self._world.later(self._chance.random() * _LONGEST_SLOW_SECONDS, self._fast_network)

    def _fast_network(self) -> None:
        self._network.slowness = 1.0

    def _kill_client(self, node: Node) -> None:
        running = self._processes.running
        if running:
            name = self._chance.choice(running)
            self._history.fault("client killed", process=name)
            self._processes.kill(name)

    def _step_clock(self, node: Node) -> None:
        seconds = self._chance.choice([-60, -5, -1, 1, 5, 60, 0])
        self._history.saw("clock step", "world", node=node.name, seconds=seconds)
        node.clock.step(seconds * 1000)
