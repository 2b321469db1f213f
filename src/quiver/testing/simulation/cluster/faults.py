"""What goes wrong in a simulated cluster: each seed has some kinds of faults, and its own pace."""

import random
from collections.abc import Callable

from quiver.cluster.controller import begin_reassignment
from quiver.cluster.membership import records
from quiver.coordination.port import Delete, Operation, Put
from quiver.replication.unit import unit_key
from quiver.testing.simulation.cluster.cluster import Cluster
from quiver.testing.simulation.cluster.etcd import HOST as ETCD
from quiver.testing.simulation.cluster.member import Member
from quiver.testing.simulation.history import History
from quiver.testing.simulation.processes import Processes

CLIENTS = "clients"
"""The machine of all clients."""
FAILOVER_SECONDS = 10.0
"""After a fault, the same request may be sent to several nodes for so long."""
_LONGEST_DOWN_SECONDS = 8.0
_LONGEST_CUT_SECONDS = 8.0
_LONGEST_PAUSED_SECONDS = 6.0
_LONGEST_AWAY_SECONDS = 5.0
_LONGEST_SLOW_SECONDS = 5.0
_LONGEST_FULL_SECONDS = 5.0
_LONGEST_DRAINED_SECONDS = 10.0
_LITTLE_BYTES = 1 << 20
_LOOK_SECONDS, _LOOKS = 1.0, 10
"""At a node whose disk was repaired: how often, and how many times."""
_HOUR_MS = 3_600_000


class ClusterFaults:
    def __init__(self, cluster: Cluster, history: History, processes: Processes) -> None:
        self._cluster, self._history, self._processes = cluster, history, processes
        self._members = cluster.members
        self._world, self._network = cluster.world, cluster.network
        self._chance: random.Random = self._world.seeded("faults")
        self._is_over = False
        kinds: list[Callable[[Member], None]] = [
            self._kill, self._kill_within, self._cut_power, self._stop, self._pause,
            self._cut_links, self._cut_from_etcd, self._lose_etcd_leader, self._break_connections,
            self._slow_disk, self._fill_disk, self._slow_network, self._kill_client, self._step_clock,
            self._strike_all, self._lose_disk, self._restore_disk, self._fail_disk, self._drain, self._reassign,
            self._swap_disk,
        ]  # fmt: skip
        self._kinds = [kind for kind in kinds if self._chance.random() < 0.5]
        self._longest_pause = self._chance.choice([2.0, 6.0, 15.0])

    @property
    def cuts_power(self) -> bool:
        return self._cut_power in self._kinds or self._strike_all in self._kinds

    def begin(self) -> None:
        self._next()

    def end(self) -> None:
        self._is_over = True
        self._network.slowness = 1.0
        self._network.routes.heal()
        for member in self._members:
            self._write(Delete(records.draining_key(str(member.number))))
            member.disk.slowness = 1.0
            member.clock.step(0)
            member.kill_within(1 << 40)
            member.resume()
            self._give_back_disk(member)
            self._repair(member)
            self._start(member)

    def _next(self) -> None:
        if not self._is_over and self._kinds:
            self._world.later(self._chance.random() * self._longest_pause, self._strike)

    def _strike(self) -> None:
        if not self._is_over:
            self._chance.choice(self._kinds)(self._chance.choice(self._members))
            self._next()

    def _fault(self, what: str, lasts_seconds: float = 0.0, **details: object) -> None:
        self._history.fault(what, lasts_seconds=lasts_seconds + FAILOVER_SECONDS, **details)

    def _seconds(self, longest: float) -> float:
        return self._chance.random() * longest

    # processes and machines

    def _start(self, member: Member) -> None:
        if not member.is_running:
            member.disk.repair()
            member.start()

    def _down(self, member: Member) -> None:
        self._world.later(self._seconds(_LONGEST_DOWN_SECONDS), self._start, member)

    def _kill(self, member: Member) -> None:
        if member.is_running:
            self._fault("kill", _LONGEST_DOWN_SECONDS, node=member.name)
            member.kill()
            self._down(member)

    def _strike_all(self, member: Member) -> None:
        """All machines lose their power, or all processes are killed."""
        is_power = self._chance.random() < 0.5
        self._fault("all lose power" if is_power else "all are killed", _LONGEST_DOWN_SECONDS)
        for each in self._members:
            (each.cut_power if is_power else each.kill)()
            self._down(each)

    def _kill_within(self, member: Member) -> None:
        if member.is_running:
            self._fault("killed at a file operation", _LONGEST_DOWN_SECONDS, node=member.name)
            member.kill_within(self._chance.randint(1, 30))

    def _cut_power(self, member: Member) -> None:
        if member.is_running:
            self._fault("power cut", _LONGEST_DOWN_SECONDS, node=member.name)
            member.cut_power()
            self._down(member)

    def _stop(self, member: Member) -> None:
        if member.is_up:
            self._fault("stop", _LONGEST_DOWN_SECONDS, node=member.name)
            member.stop()

    def _pause(self, member: Member) -> None:
        if member.is_running:
            seconds = self._seconds(_LONGEST_PAUSED_SECONDS)
            self._fault("pause", seconds, node=member.name, seconds=seconds)
            member.pause(seconds)

    def _kill_client(self, member: Member) -> None:
        running = self._processes.running
        if running:
            name = self._chance.choice(running)
            self._fault("client killed", process=name)
            self._processes.kill(name)

    def _step_clock(self, member: Member) -> None:
        milliseconds = self._chance.choice([-3 * _HOUR_MS, -60_000, -1000, 0, 1000, 60_000, 3 * _HOUR_MS])
        self._history.saw("clock step", "world", node=member.name, milliseconds=milliseconds)
        member.clock.step(milliseconds)

    # operators

    def _write(self, operation: Operation) -> None:
        self._cluster.etcd.write(operation)

    def _drain(self, member: Member) -> None:
        key = records.draining_key(str(member.number))
        self._fault("drain", _LONGEST_DRAINED_SECONDS, node=member.name)
        self._write(Put(key, b""))
        self._world.later(self._seconds(_LONGEST_DRAINED_SECONDS), self._write, Delete(key))

    def _reassign(self, member: Member) -> None:
        """A unit moves to some of the nodes, in another order."""
        units = self._cluster.units()
        if units:
            worker = self._chance.choice(list(units))
            target = self._chance.sample([each.number for each in self._members], self._cluster.shape.replicas)
            self._fault("reassign", worker=worker, target=target)
            self._write(Put(unit_key(worker), begin_reassignment(units[worker], target).key_value))

    # the network

    def _cut_links(self, member: Member) -> None:
        """Between this node and another one or everybody, in one direction or both."""
        others = [other.name for other in self._members if other is not member]
        hosts = self._chance.choice([[self._chance.choice(others)], [*others], [*others, CLIENTS, ETCD]])
        seconds, direction = self._seconds(_LONGEST_CUT_SECONDS), self._chance.choice(["to", "from", "both"])
        self._fault("links cut", seconds, node=member.name, direction=direction, hosts=hosts, seconds=seconds)
        for host in hosts:
            self._cut(member.name, host, direction, seconds)

    def _cut_from_etcd(self, member: Member) -> None:
        seconds, direction = self._seconds(_LONGEST_CUT_SECONDS), self._chance.choice(["to", "from", "both"])
        self._fault("cut from etcd", seconds, node=member.name, direction=direction, seconds=seconds)
        self._cut(member.name, ETCD, direction, seconds)

    def _cut(self, host: str, other: str, direction: str, seconds: float) -> None:
        if direction != "from":
            self._network.routes.cut(host, other, seconds)
        if direction != "to":
            self._network.routes.cut(other, host, seconds)

    def _lose_etcd_leader(self, member: Member) -> None:
        seconds = self._seconds(_LONGEST_AWAY_SECONDS)
        self._fault("etcd has no leader", seconds, seconds=seconds)
        self._cluster.etcd.lose_leader(seconds)

    def _break_connections(self, member: Member) -> None:
        count = sum(self._network.cut_one() for _ in range(self._chance.choice([1, 1, 1, 5, 30])))
        self._fault("connections cut", count=count)

    def _slow_network(self, member: Member) -> None:
        self._network.slowness = self._chance.choice([10.0, 100.0])
        self._fault("slow network", _LONGEST_SLOW_SECONDS, times=self._network.slowness)
        self._world.later(self._seconds(_LONGEST_SLOW_SECONDS), setattr, self._network, "slowness", 1.0)

    # disks

    def _slow_disk(self, member: Member) -> None:
        member.disk.slowness = self._chance.choice([10.0, 100.0, 500.0])
        self._fault("slow disk", _LONGEST_SLOW_SECONDS, node=member.name, times=member.disk.slowness)
        self._world.later(self._seconds(_LONGEST_SLOW_SECONDS), setattr, member.disk, "slowness", 1.0)

    def _lose_disk(self, member: Member) -> None:
        """A new machine with an empty disk takes the place of one; of a whole cluster, or something may be lost."""
        if self._cluster.is_whole():
            self._fault("disk lost", _LONGEST_DOWN_SECONDS, node=member.name)
            member.lose_disk()
            self._down(member)

    def _restore_disk(self, member: Member) -> None:
        """A node comes back with an old copy of its disk; of a whole cluster, or something may be lost."""
        if not self._cluster.is_whole():
            return
        if member.has_old_copy:
            self._fault("old disk", _LONGEST_DOWN_SECONDS, node=member.name)
            member.restore_disk()
            self._down(member)
        else:
            member.copy_disk()

    def _swap_disk(self, member: Member) -> None:
        """A node is started with a copy of another node's disk, which it refuses, until it gets its own one back."""
        others = [other for other in self._members if other is not member and other.is_up]
        if not others or not member.has_own_disk:
            return
        other = self._chance.choice(others)
        seconds = self._seconds(_LONGEST_DOWN_SECONDS)
        self._fault("another node's disk", _LONGEST_DOWN_SECONDS, node=member.name, other=other.name)
        member.take_disk_of(other)
        self._start(member)
        self._world.later(seconds, self._give_back_disk, member)

    def _give_back_disk(self, member: Member) -> None:
        if not member.has_own_disk:
            member.take_own_disk()
            self._start(member)

    def _fail_disk(self, member: Member) -> None:
        """Writes and syncs fail for a while."""
        self._fault("disk fails", _LONGEST_FULL_SECONDS, node=member.name)
        member.disk.is_failing = True
        self._world.later(self._seconds(_LONGEST_FULL_SECONDS), self._repair, member)

    def _fill_disk(self, member: Member) -> None:
        """Little is free, which the broker sees, or a write fails, soon and without a warning."""
        if not member.is_up:
            return
        self._fault("disk full", _LONGEST_FULL_SECONDS, node=member.name)
        if self._chance.random() < 0.5:
            member.disk.free_bytes = _LITTLE_BYTES
        else:
            member.disk.room_bytes = self._chance.choice([0, 100, 20_000])
        self._world.later(self._seconds(_LONGEST_FULL_SECONDS), self._repair, member)

    def _repair(self, member: Member) -> None:
        member.disk.repair()
        self._look_after(member, _LOOKS)

    def _look_after(self, member: Member, looks: int) -> None:
        """A node whose writes have failed leads nothing until somebody starts it again. One that is paused says so
        later."""
        if member.has_failed_disk:
            self._fault("started again after a failed write", node=member.name)
            member.stop()
        elif looks:
            self._world.later(_LOOK_SECONDS, self._look_after, member, looks - 1)
