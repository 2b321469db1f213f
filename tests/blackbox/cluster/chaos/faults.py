"""Faults of machines, processes, disks, links and etcd, one after the other, chosen by the seed of the run."""

import contextlib
import os
import random
import shutil
import signal
import subprocess
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from blackbox.cluster.chaos.cluster_under_test import ETCD, ClusterUnderTest
from blackbox.cluster.replicated_nodes import NODES
from blackbox.interleaving.history import Event
from blackbox.interleaving.scenario import World
from blackbox.processes.broker_process import BrokerExited, wait_until
from blackbox.processes.strace_faults import inject

CUT_SECONDS = (0.5, 8.0)
"""Below and above the lease of a node and the time after which a follower leaves a set."""
SLOW_SECONDS = 5.0
DELAY_SECONDS = (0.01, 0.2)
TAKE_OVER_SECONDS = 60.0
OVERLAP = 0.3
"""How often the next fault comes before the cluster has recovered from the last."""


class Faults:
    """`deck`: names of faults. It comes in another order each time, so that a long run has all of them."""

    def __init__(self, world: World, cluster: ClusterUnderTest, deck: list[str], *, once: bool) -> None:
        """`once`: ends when each of them was there."""
        self._world, self._cluster, self._whole_deck, self._once = world, cluster, deck, once
        self._chance: random.Random = world.chance("faults")
        self._deck: list[str] = []
        self._open: list[Event] = []
        """Faults that the cluster has not recovered from yet, as far as is known."""
        self.done: Counter[str] = Counter()

    def run(self) -> None:
        try:
            self._cluster.await_whole()
            while not self._world.quiet.wait(self._chance.uniform(0.2, 2)):
                self._cause()
                if self._once and not self._deck:
                    return
        finally:
            self._cluster.heal()
            self._recover()

    def _cause(self) -> None:
        if not self._deck:
            self._deck = self._chance.sample(self._whole_deck, len(self._whole_deck))
        name, node = self._deck.pop(), self._chance.choice(NODES)
        if name in ALONE:
            self._recover()
        event = self._world.recorder.begin("fault", "faults", fault=name, node=node)
        self._open.append(event)
        with contextlib.suppress(pytest.skip.Exception):  # what is not permitted here
            FAULTS[name](self, node)
            self.done[name] += 1
        self._check_processes()
        if name in ALONE or self._chance.random() >= OVERLAP:
            self._recover()

    def _recover(self) -> None:
        self._cluster.await_whole()
        while self._open:
            self._world.recorder.end(self._open.pop())

    def _check_processes(self) -> None:
        for number, node in self._cluster.nodes.items():
            assert node.running, f"node {number} has ended by itself:\n{node.log_text[-4000:]}"

    def _pause(self, seconds: tuple[float, float] = CUT_SECONDS) -> None:
        self._world.quiet.wait(self._chance.uniform(*seconds))

    # processes

    def kill(self, node: int) -> None:
        self._cluster.nodes[node].kill()
        self._pause((0.0, 5.0))
        self._cluster.start(node)

    def stop(self, node: int) -> None:
        assert self._cluster.nodes[node].terminate() == 0, self._cluster.nodes[node].log_text[-4000:]
        self._cluster.start(node)

    def kill_two(self, node: int) -> None:
        killed = [number for number in NODES if number != node]
        for number in killed:
            self._cluster.nodes[number].kill()
        self._pause((0.0, 4.0))
        self._cluster.start(*killed)

    def kill_all(self, node: int) -> None:
        for number in NODES:
            self._cluster.nodes[number].kill()
        self._cluster.start(*NODES)

    def pause(self, node: int) -> None:
        """It goes on as if nothing had happened."""
        pid = self._cluster.nodes[node].pid
        os.kill(pid, signal.SIGSTOP)
        self._pause()
        os.kill(pid, signal.SIGCONT)

    def clock(self, node: int) -> None:
        """Its clock is hours wrong, until it is started again."""
        program = shutil.which("faketime")
        if program is None:
            pytest.skip("faketime is not installed")
        broker = self._cluster.nodes[node]
        broker.kill()
        broker.prefix = [program, "-f", f"{self._chance.choice((-5, -1, 1, 5)):+}h"]
        broker.environment["FAKETIME_DONT_FAKE_MONOTONIC"] = "1"
        try:
            self._cluster.start(node)
            self._pause()
        finally:
            broker.prefix = []
        self.kill(node)

    # links

    def deaf(self, node: int) -> None:
        """What others send does not arrive; what it sends does."""
        self._cut(self._cluster.between(node)[1])

    def mute(self, node: int) -> None:
        self._cut(self._cluster.between(node)[0])

    def alone(self, node: int) -> None:
        """It reaches etcd and clients, and no other node."""
        self._cut([*self._cluster.between(node)[0], *self._cluster.between(node)[1]])

    def one_link(self, node: int) -> None:
        """Of two nodes, one does not get what the other sends."""
        self._cut([self._chance.choice(self._cluster.between(node)[0])])

    def deaf_to_etcd(self, node: int) -> None:
        self._cut([(ETCD, str(node))])

    def mute_to_etcd(self, node: int) -> None:
        self._cut([(str(node), ETCD)])

    def away(self, node: int) -> None:
        """It reaches neither etcd nor another node."""
        here = str(node)
        self._cut([*self._cluster.between(node)[0], *self._cluster.between(node)[1], (here, ETCD), (ETCD, here)])

    def slow_links(self, node: int) -> None:
        edges = [*self._cluster.between(node)[0], *self._cluster.between(node)[1]]
        self._cluster.relays.delay(edges, self._chance.uniform(*DELAY_SECONDS))
        self._pause()
        self._cluster.heal()

    def _cut(self, edges: list[tuple[str, str]]) -> None:
        self._cluster.relays.cut(edges)
        self._pause()
        self._cluster.heal(breaks=self._chance.random() < 0.5)

    # disks

    def full_disk(self, node: int) -> None:
        if self._cluster.disk is None:
            pytest.skip("mounting is not permitted")
        ballast = self._cluster.disk / "ballast"
        try:
            with ballast.open("wb") as file, contextlib.suppress(OSError):
                while True:
                    file.write(bytes(1 << 20))
                    file.flush()
            self._pause()
        finally:
            ballast.unlink(missing_ok=True)

    def slow_disk(self, node: int) -> None:
        with inject(self._cluster.nodes[node].pid, "delay_exit=100000", "fdatasync"):
            self._world.quiet.wait(SLOW_SECONDS)

    def failing_disk(self, node: int) -> None:
        """Syncs fail for a while. Others take over, and the node leads nothing before it is started again."""
        log = self._cluster.nodes[node].log_path
        before = log.stat().st_size
        with inject(self._cluster.nodes[node].pid, "error=EIO"):
            self._pause()
        if b"is offline for writes" in log.read_bytes()[before:]:
            wait_until(lambda: self._leads_nothing(node), TAKE_OVER_SECONDS, f"others lead what node {node} led")
        self.kill(node)

    def _leads_nothing(self, node: int) -> bool:
        units = self._cluster.units()
        return bool(units) and all(unit["node"] not in (str(node), "") for unit in units)

    def empty_disk(self, node: int) -> None:
        self._cluster.nodes[node].kill()
        _empty(self._cluster.nodes[node].data_dir)
        self._cluster.start(node)

    def old_disk(self, node: int) -> None:
        """It is away until no set has it any more, and another leader was there and is gone again."""
        self._cluster.nodes[node].kill()
        wait_until(lambda: self._is_left_out(node), TAKE_OVER_SECONDS, f"no set has node {node}")
        self._pause((0.0, 3.0))
        other = self._chance.choice([number for number in NODES if number != node])
        self._cluster.nodes[other].kill()
        self._cluster.start(other, node)

    def _is_left_out(self, node: int) -> bool:
        units = self._cluster.units()
        return bool(units) and all(str(node) not in unit["isr"] for unit in units)

    def other_disk(self, node: int) -> None:
        """The node is started on a copy of another node's data, which it must refuse."""
        other = self._chance.choice([number for number in NODES if number != node])
        copy = f"copy-{self.done['other_disk']}-of-{other}"
        self._cluster.nodes[node].kill()
        # The other node goes on meanwhile, so files come and go under the copy.
        command = ["cp", "-a", str(self._cluster.nodes[other].data_dir), str(self._cluster.directory / copy)]
        subprocess.run(command, check=False, capture_output=True)
        with pytest.raises(BrokerExited, match=f"belongs to node {other} of this cluster, not to node {node}"):
            self._cluster.start_on(node, copy).wait_ready(60.0)
        shutil.rmtree(self._cluster.directory / copy)
        self._cluster.start(node)

    # etcd

    def etcd_leader(self, node: int) -> None:
        leader = self._cluster.etcd.leader()
        leader.kill()
        self._pause((0.0, 4.0))
        self._cluster.etcd.restart(leader)

    def both_leaders(self, node: int) -> None:
        """A node and the leader of etcd at the same moment."""
        leader = self._cluster.etcd.leader()
        leader.kill()
        self.kill(node)
        self._cluster.etcd.restart(leader)

    def no_etcd(self, node: int) -> None:
        for member in self._cluster.etcd.members:
            member.kill()
        self._pause()
        self._cluster.etcd.start()

    def no_etcd_and_kill(self, node: int) -> None:
        """A node dies while nobody can decide anything."""
        for member in self._cluster.etcd.members:
            member.kill()
        self._cluster.nodes[node].kill()
        self._pause((0.0, 4.0))
        self._cluster.etcd.start()
        self._cluster.start(node)


FAULTS: dict[str, Callable[[Faults, int], None]] = {
    name: member for name, member in vars(Faults).items() if not name.startswith("_") and name != "run"
}
ALONE = ("empty_disk", "old_disk", "other_disk", "full_disk", "failing_disk")
"""These take a replica away for longer, so all others have to be in sync: cause and end come with a whole cluster."""


def _empty(directory: Path) -> None:
    """It may be the root of a file system."""
    for entry in directory.iterdir():
        shutil.rmtree(entry) if entry.is_dir() else entry.unlink()
