"""The network between processes: delays, refused connections, connections that break."""

import asyncio
import errno
import os
import random
import socket
from typing import cast

from quiver.testing.simulation.system.sockets import SimulatedSocket
from quiver.testing.simulation.world import World

_SHORTEST_SECONDS = 0.0001
_LONG_SECONDS = 0.05
_KEEP_ALIVE_SECONDS = 20.0
"""Within this time an idle connection is used, to see whether the other machine is there."""
_NO_ANSWER_SECONDS = 130.0
"""A machine without power says nothing to whoever connects to it."""


def host_of(process: str) -> str:
    """The machine of a process, whose name begins with that of the machine."""
    return process.partition("/")[0]


class SimulatedNetwork:
    """One network for all processes; `of` is how one of them sees it. Slow while `slowness` is above 1."""

    def __init__(self, world: World) -> None:
        self.slowness = 1.0
        self.routes = Routes(world)
        self._world = world
        self._chance: random.Random = world.seeded("network")
        self._listeners: dict[tuple[str, int], list[SimulatedSocket]] = {}
        """By host and port: the workers of a node listen on one port."""
        self._connections: list[tuple[SimulatedSocket, SimulatedSocket]] = []
        self._dark: dict[str, list[SimulatedSocket]] = {}
        """Machines without power, and what their ends of connections were."""

    def of(self, process: str) -> "ProcessNetwork":
        return ProcessNetwork(self, process)

    def delay_seconds(self, source: str, target: str) -> float:
        """Mostly short, now and then long."""
        seconds = _SHORTEST_SECONDS + self._chance.random() * 0.001
        if self._chance.random() < 0.02:
            seconds += self._chance.random() * _LONG_SECONDS
        return seconds * self.slowness + self.routes.wait_seconds(host_of(source), host_of(target))

    def cut_one(self) -> bool:
        """Breaks a connection of the seed's choice, at both ends and not at the same time."""
        self._connections = [pair for pair in self._connections if not any(end.is_closed for end in pair)]
        if not self._connections:
            return False
        pair = self._connections.pop(self._chance.randrange(len(self._connections)))
        self._world.note("cut", *(end.owner for end in pair))
        for end in pair:
            self._world.later(self._chance.random() * _LONG_SECONDS, end.reset)
        return True

    def end_of(self, process: str) -> None:
        """A process is gone: its listener too, and its connections break at the other end sooner or later."""
        for end in self._take_ends(process):
            other = end.peer
            assert other is not None, "a connection has two ends"
            wait = self.routes.wait_seconds(host_of(process), host_of(other.owner))
            self._world.later(self._chance.random() * _LONG_SECONDS + wait, other.reset)

    def power_lost(self, process: str) -> None:
        """A process is gone with its machine: nobody is told, until the machine is back and gets something for a
        connection that it does not know."""
        self._dark.setdefault(host_of(process), []).extend(self._take_ends(process))

    def power_back(self, host: str) -> None:
        for end in self._dark.pop(host, []):
            end.forget(self._chance.random() * _KEEP_ALIVE_SECONDS)

    def _take_ends(self, process: str) -> list[SimulatedSocket]:
        for place, listeners in self._listeners.items():
            self._listeners[place] = [listener for listener in listeners if listener.owner != process]
        ends = [end for pair in self._connections for end in pair if end.owner == process]
        self._connections = [pair for pair in self._connections if process not in (pair[0].owner, pair[1].owner)]
        return ends

    def listen(self, process: str, host: str, port: int) -> SimulatedSocket:
        listener = SimulatedSocket(self._world, process, self)
        self._listeners.setdefault((host, port), []).append(listener)
        return listener

    async def dial(self, process: str, host: str, port: int) -> socket.socket:
        """A connection, which the other side accepts when it gets to it; ConnectionRefusedError."""
        if host in self._dark:
            await asyncio.sleep(_NO_ANSWER_SECONDS)
        await asyncio.sleep(self.delay_seconds(process, host) + self.routes.wait_seconds(host, host_of(process)))
        listeners = [listener for listener in self._listeners.get((host, port), ()) if not listener.is_closed]
        if not listeners:
            raise ConnectionRefusedError(errno.ECONNREFUSED, os.strerror(errno.ECONNREFUSED))
        listener = listeners[0] if len(listeners) == 1 else self._chance.choice(listeners)
        here, there = self.pair(process, listener.owner)
        self._world.later(self.delay_seconds(process, host), listener.offer, there)
        return cast(socket.socket, here)

    def pair(self, process: str, other: str) -> tuple[SimulatedSocket, SimulatedSocket]:
        """Two connected sockets."""
        here, there = SimulatedSocket(self._world, process, self), SimulatedSocket(self._world, other, self)
        here.peer, there.peer = there, here
        self._connections.append((here, there))
        return here, there

    def move(self, sock: SimulatedSocket, process: str) -> SimulatedSocket:
        """Passes one end of a connection to another process."""
        moved = sock.move_to(process)
        self._connections = [
            (moved if one is sock else one, moved if other is sock else other) for one, other in self._connections
        ]
        return moved


class Routes:
    """Which machines do not reach which. What is sent meanwhile is sent again until it arrives."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._cut_until: dict[tuple[str, str], float] = {}

    def cut(self, source: str, target: str, seconds: float) -> None:
        """In this direction only."""
        until = self._world.now + seconds
        self._cut_until[source, target] = max(until, self._cut_until.get((source, target), 0.0))

    def wait_seconds(self, source: str, target: str) -> float:
        """Until something that is sent now can arrive."""
        until = self._cut_until.get((source, target), 0.0) if self._cut_until else 0.0
        return max(0.0, until - self._world.now)

    def heal(self) -> None:
        self._cut_until.clear()


class ProcessNetwork:
    """The network as one process sees it: a `quiver.system.network.Network`."""

    def __init__(self, network: SimulatedNetwork, process: str) -> None:
        self._network = network
        self._process = process

    async def listen(self, host: str, port: int) -> tuple[list[socket.socket], int]:
        return [cast(socket.socket, self._network.listen(self._process, host, port))], port

    async def dial(self, host: str, port: int, timeout: float) -> socket.socket:
        async with asyncio.timeout(timeout):
            return await self._network.dial(self._process, host, port)
