"""Links between the workers of a cluster: within this process, and over TCP to other nodes."""

import asyncio
import contextlib
import logging
import socket

from quiver.app.cluster.assignments import Assignments
from quiver.app.cluster.hosting import Hosting
from quiver.cluster.membership.state import ClusterState
from quiver.links.channel import LocalEnd, RemoteEnd
from quiver.links.handshake import Handshake
from quiver.links.outgoing import Target
from quiver.links.peers import Peers
from quiver.model.errors import QuiverError, UnsupportedVersion
from quiver.routing.worker import Worker
from quiver.system.backoff import Backoff
from quiver.system.network import Network, tune

_log = logging.getLogger(__name__)

_CONNECT_SECONDS = 2.0
_OWNER_SECONDS = 9.0
"""How long calls wait for somebody who runs a worker."""
_FIRST_PAUSE_SECONDS, _LONGEST_PAUSE_SECONDS = 0.02, 0.25


class Wiring:
    """`gateway` is the worker of this node that owns nothing: calls to the node go to it."""

    def __init__(
        self, node: str, state: ClusterState, assignments: Assignments, handshake: Handshake, network: Network
    ) -> None:
        self._node, self._state, self._assignments = node, state, assignments
        self._handshake, self._network = handshake, network
        self._listeners: list[socket.socket] = []
        self._tasks: set[asyncio.Task[None]] = set()
        self.port = 0
        self.hosting: Hosting
        self.gateway: Worker

    async def listen(self, host: str, port: int) -> None:
        self._listeners, self.port = await self._network.listen(host, port)
        for listener in self._listeners:
            asyncio.get_running_loop().add_reader(listener.fileno(), self._on_connect, listener)

    async def close(self) -> None:
        for listener in self._listeners:
            asyncio.get_running_loop().remove_reader(listener.fileno())
            listener.close()
        self._listeners = []
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def nodes(self, worker: int) -> list[str]:
        """With gateways of their own, as a worker of this process sees it."""
        is_gateway = worker >= self._state.workers
        return [node for node in self._state.nodes if not (is_gateway and node == self._node)]

    async def dial(self, target: Target) -> RemoteEnd | LocalEnd:
        """Waits for whoever runs a worker; OSError when nobody does for a while."""
        loop, backoff = asyncio.get_running_loop(), Backoff(_FIRST_PAUSE_SECONDS, _LONGEST_PAUSE_SECONDS)
        deadline, problem = loop.time() + _OWNER_SECONDS, "no broker runs it"
        while True:
            changed = self._assignments.changed
            peers = self._local(target)
            if peers is not None:
                return peers.local_end
            try:
                connected = await self._connect(target)
                if connected is not None:
                    return connected
            except (OSError, TimeoutError, QuiverError) as error:
                problem = str(error) or type(error).__name__
            left = deadline - loop.time()
            if left <= 0 or (isinstance(target, str) and target not in self._state.nodes):
                raise OSError(problem)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(min(left, backoff.next_seconds())):
                    await changed.wait()

    def redirect(self) -> None:
        """Assignments or nodes have changed: links to brokers that no longer run a worker are left."""
        for worker in range(self._state.workers):
            assignment = self._assignments.of(worker)
            owner = "" if assignment is None else assignment.node
            for peers in self._all_peers:
                link = peers.links_to(worker)
                if link is not None:
                    link.redirect(owner, self._state.nodes)
        for peers in self._all_peers:
            for node in [each for each in peers.known_nodes if each not in self._state.nodes]:
                peers.forget_node(node)

    @property
    def _all_peers(self) -> list[Peers]:
        return [self.gateway.peers, *(worker.peers for worker in self.hosting.all_running)]

    def _local(self, target: Target) -> Peers | None:
        if isinstance(target, str):
            return self.gateway.peers if target == self._node else None
        running = self.hosting.running(target) if 0 <= target < self._state.workers else None
        return None if running is None else running.peers

    async def _connect(self, target: Target) -> RemoteEnd | None:
        """None: it is to run here, or nobody is named."""
        if isinstance(target, str):
            node = target
        else:
            assignment = self._assignments.of(target)
            node = "" if assignment is None else assignment.node
        record = self._state.nodes.get(node)
        if record is None or node == self._node:
            return None
        sock = await self._network.dial(record.host, record.link_port, _CONNECT_SECONDS)
        try:
            tune(sock)
            version = await self._handshake.call(sock, target)
        except BaseException:
            sock.close()
            raise
        return RemoteEnd(sock, version, node)

    def _on_connect(self, listener: socket.socket) -> None:
        with contextlib.suppress(OSError):
            sock, _ = listener.accept()
            sock.setblocking(False)
            task = asyncio.get_running_loop().create_task(self._accept(sock))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _accept(self, sock: socket.socket) -> None:
        try:
            tune(sock)
            target, version = await self._handshake.answer(sock, lambda wanted: self._local(wanted) is not None)
            peers = self._local(target)
            if peers is not None:
                peers.accept(sock, version)
                return
        except UnsupportedVersion as error:
            _log.warning("a link of another node was refused: %s", error)
        except (OSError, TimeoutError, QuiverError) as error:
            _log.info("a link of another node was refused: %s", error or type(error).__name__)
        except BaseException:
            sock.close()
            raise
        sock.close()
