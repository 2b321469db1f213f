"""TCP between the parts of a cluster under test, as a process of its own. Each direction between two parts can be cut
or delayed; what is cut is held, as the network stack of a sender would, and comes late, or its connections break.

    python -m blackbox.cluster.chaos.relay_process

Commands are lines of JSON on standard input, each answered by a line. The parts have names; an edge is a pair of
them, in the direction of the bytes.
"""

import asyncio
import contextlib
import json
import os
import random
import socket
import sys
from collections import Counter
from collections.abc import Iterable
from typing import Any

from quiver.model.errors import ProtocolError
from quiver.protocol.link_messages import LinkOpen, decode_link_message
from quiver.protocol.packet import PREFIX_BYTES

Edge = tuple[str, str]
_READ_BYTES = 256 * 1024


class Network:
    """Which edges are cut, which are slow, and how many bytes have met that."""

    def __init__(self) -> None:
        self._open: dict[Edge, asyncio.Event] = {}
        self.delays: dict[Edge, float] = {}
        self.held: Counter[Edge] = Counter()
        self.breaking: set[Edge] = set()
        """Edges whose held connections break when the cut ends."""

    def cut(self, edges: Iterable[Edge]) -> None:
        for edge in edges:
            self._open.setdefault(edge, asyncio.Event()).clear()

    def heal(self, *, breaks: bool) -> None:
        for edge, is_open in self._open.items():
            if not is_open.is_set() and breaks:
                self.breaking.add(edge)
            is_open.set()
        self._open = {}

    async def pass_through(self, edge: Edge, size: int) -> None:
        """Returns when these bytes arrive; ConnectionResetError when they never do."""
        if (delay := self.delays.get(edge)) is not None:
            self.held[edge] += size
            await asyncio.sleep(delay)
        if (is_open := self._open.get(edge)) is not None and not is_open.is_set():
            self.held[edge] += max(size, 1)
            self.breaking.discard(edge)
            await is_open.wait()
            if edge in self.breaking:
                raise ConnectionResetError("the network lost it")


class Connection:
    def __init__(self, network: Network, caller: str, called: str) -> None:
        self._network, self.caller, self._called = network, caller, called

    async def run(self, near: socket.socket, far: socket.socket) -> None:
        """Until either end breaks, or both have ended."""
        there = asyncio.create_task(self._pump(near, far, is_call=True))
        back = asyncio.create_task(self._pump(far, near, is_call=False))
        try:
            await asyncio.wait([there, back], return_when=asyncio.FIRST_EXCEPTION)
        finally:
            for task in (there, back):
                task.cancel()
            await asyncio.gather(there, back, return_exceptions=True)

    async def _pump(self, source: socket.socket, sink: socket.socket, *, is_call: bool) -> None:
        loop = asyncio.get_running_loop()
        while True:
            data = await loop.sock_recv(source, _READ_BYTES)
            if is_call and not self.caller:
                self.caller = _opening_node(data)
            edge = (self.caller, self._called) if is_call else (self._called, self.caller)
            await self._network.pass_through(edge, len(data))
            if not data:
                with contextlib.suppress(OSError):
                    sink.shutdown(socket.SHUT_WR)
                return
            await loop.sock_sendall(sink, data)


def _opening_node(data: bytes) -> str:
    """Who calls, as the first message of a link says. It is small, and comes whole."""
    size = int.from_bytes(data[8:PREFIX_BYTES], "little")
    try:
        opening = decode_link_message(data[PREFIX_BYTES : PREFIX_BYTES + size])
    except ProtocolError:
        return "nobody"
    return opening.node if isinstance(opening, LinkOpen) else "nobody"


class Relays:
    def __init__(self) -> None:
        self.network = Network()
        self._chance = random.Random(0)
        self._tasks: set[asyncio.Task[None]] = set()

    def listen(self, host: str, port: int, targets: list[int], caller: str, called: str) -> int:
        """Passes connections on to one of the ports of this machine: the first of them that listens, in any order.
        Without a caller it is the node that opens a link."""
        listener = socket.create_server((host, port), backlog=200)
        listener.setblocking(False)
        self._begin(self._accept(listener, targets, caller, called))
        return int(listener.getsockname()[1])

    async def _accept(self, listener: socket.socket, targets: list[int], caller: str, called: str) -> None:
        while True:
            near, _ = await asyncio.get_running_loop().sock_accept(listener)
            self._begin(self._serve(near, targets, caller, called))

    async def _serve(self, near: socket.socket, targets: list[int], caller: str, called: str) -> None:
        with near, contextlib.suppress(OSError):
            if caller:  # a connection begins with packets in both directions
                await self.network.pass_through((caller, called), 0)
                await self.network.pass_through((called, caller), 0)
            with await self._connect(targets) as far:
                for end in (near, far):
                    end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                await Connection(self.network, caller, called).run(near, far)

    async def _connect(self, targets: list[int]) -> socket.socket:
        problem = OSError("no target")
        for port in self._chance.sample(targets, len(targets)):
            far = socket.socket()
            far.setblocking(False)
            try:
                await asyncio.get_running_loop().sock_connect(far, ("127.0.0.1", port))
                return far
            except OSError as error:
                far.close()
                problem = error
        raise problem

    def _begin(self, work: Any) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def carry_out(self, command: dict[str, Any]) -> Any:
        network = self.network
        match command.pop("do"):
            case "listen":
                return self.listen(**command)
            case "cut":
                network.cut(map(tuple, command["edges"]))
            case "delay":
                network.delays |= dict.fromkeys(map(tuple, command["edges"]), command["seconds"])
            case "heal":
                network.delays.clear()
                network.heal(breaks=command["breaks"])
                held, network.held = sum(network.held.values()), Counter()
                return held
        return None


async def main() -> None:
    relays, loop = Relays(), asyncio.get_running_loop()
    commands = asyncio.StreamReader()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(commands), os.fdopen(0, "rb"))
    while line := await commands.readline():
        sys.stdout.write(json.dumps(relays.carry_out(json.loads(line))) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    asyncio.run(main())
