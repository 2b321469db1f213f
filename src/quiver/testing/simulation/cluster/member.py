"""A machine of a simulated cluster: it is started, killed, paused, loses its power, and is started again."""

from collections.abc import Callable

from quiver.links.versions import SPOKEN
from quiver.system.randomness import SeededRandomness
from quiver.testing.simulation.cluster.etcd import EtcdModel
from quiver.testing.simulation.cluster.member_process import ClusterShape, Machine, MemberProcess
from quiver.testing.simulation.system.clock import SimulatedClock
from quiver.testing.simulation.system.disk import Directory, Disk
from quiver.testing.simulation.system.network import SimulatedNetwork
from quiver.testing.simulation.world import World

_LOOK_SECONDS = 0.05
_RESTART_SECONDS = 1.0
_OLD_VERSIONS, _VERSIONS = str(SPOKEN.oldest), f"{SPOKEN.oldest}-{SPOKEN.newest}"


class Setting:
    """What all members of a cluster share."""

    def __init__(
        self, world: World, network: SimulatedNetwork, shape: ClusterShape, on_error: Callable[[str], None]
    ) -> None:
        self.world, self.network, self.shape, self.on_error = world, network, shape, on_error
        self.etcd = EtcdModel(world, network)


class Member:
    """A process that ends by itself is started again a little later, until `kill`, `cut_power` or `stop`."""

    def __init__(self, setting: Setting, number: int) -> None:
        self.number, self.name = number, f"node-{number}"
        world = self._world = setting.world
        self._setting = setting
        self.clock = SimulatedClock(world)
        self.disk = Disk(world.seeded(f"disk/{self.name}"))
        self._randomness = SeededRandomness(world.seeded(f"randomness/{self.name}"))
        self._chance = world.seeded(f"versions/{self.name}")
        self.starts = 0
        self._copy: tuple[int, Directory] | None = None
        """Of the disk, with the number of the start after which it was made."""
        self._own_disk: Directory | None = None
        """While that of another machine is in this one."""
        self._process: MemberProcess | None = None
        """None while it is down."""

    @property
    def is_running(self) -> bool:
        """There is a process, which may still be starting."""
        return self._process is not None and not self._process.has_ended

    @property
    def is_up(self) -> bool:
        """It is started and serves."""
        return self._process is not None and self._process.is_up

    @property
    def has_own_disk(self) -> bool:
        """Not that of another machine."""
        return self._own_disk is None

    @property
    def has_failed_disk(self) -> bool:
        return self._process is not None and self._process.has_failed_disk

    def start(self) -> None:
        assert not self.is_running, "it runs"
        self.starts += 1
        setting = self._setting
        setting.network.power_back(self.name)
        is_old = setting.shape.is_mixed and self._chance.random() < 0.5
        machine = Machine(
            self.number,
            self.name,
            setting.world,
            setting.network,
            setting.etcd,
            self.clock,
            self.disk,
            self._randomness,
            setting.shape,
            setting.on_error,
            _OLD_VERSIONS if is_old else _VERSIONS,
            self.has_own_disk,
        )
        self._process = process = MemberProcess(machine, self.starts)
        process.start()
        self._world.later(_LOOK_SECONDS, self._look_after, process)

    def _look_after(self, process: MemberProcess) -> None:
        if self._process is not process:
            return
        if process.has_ended:
            self._process = None
            self._world.later(_RESTART_SECONDS, self._start_again, self.starts)
        else:
            self._world.later(_LOOK_SECONDS, self._look_after, process)

    def _start_again(self, starts: int) -> None:
        if self._process is None and self.starts == starts:
            self.start()

    def kill(self) -> None:
        """Like kill -9: what was written stays."""
        process, self._process = self._process, None
        if process is not None:
            process.kill()

    def cut_power(self) -> None:
        """What was not synced may be lost; the others are not told."""
        process, self._process = self._process, None
        if process is not None:
            process.lose_power()
        self.disk.cut_power()

    def lose_disk(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            process.lose_power()
        self.disk.erase()

    def copy_disk(self) -> None:
        self._copy = self.starts, self.disk.copy()

    @property
    def has_old_copy(self) -> bool:
        """One that was made before the last start."""
        return self._copy is not None and self._copy[0] < self.starts

    def restore_disk(self) -> None:
        """It is as it was when it was copied."""
        process, self._process = self._process, None
        if process is not None:
            process.lose_power()
        assert self._copy is not None, "it was copied"
        self.disk.restore(self._copy[1])

    def take_disk_of(self, other: "Member") -> None:
        """It does not start until `take_own_disk`."""
        self.kill()
        self._own_disk, self.disk.root = self.disk.root, other.disk.copy()

    def take_own_disk(self) -> None:
        assert self._own_disk is not None, "it has its own one"
        self.kill()
        self.disk.root, self._own_disk = self._own_disk, None

    def kill_within(self, operations: int) -> None:
        """Ends in the middle of one of the next changes to files, and is started again."""
        if self._process is not None:
            self._process.files.kill_after(operations)

    def pause(self, seconds: float) -> None:
        """Like SIGSTOP, and SIGCONT later."""
        if self._process is not None:
            loop = self._process.loop
            loop.pause()
            self._world.later(seconds, loop.resume)

    def resume(self) -> None:
        if self._process is not None:
            self._process.loop.resume()

    def stop(self) -> None:
        """Like SIGTERM. `is_running` says when it has ended; then it is started again."""
        if self._process is not None:
            self._process.stop()
