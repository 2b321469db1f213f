"""The other workers of the broker: calls to them, and calls from them."""

import asyncio
import socket
from collections.abc import Callable, Sequence
from typing import Any

from quiver.links.channel import Channel, LocalEnd, Results
from quiver.links.direct_channel import DirectChannel
from quiver.links.incoming import IncomingLink
from quiver.links.incoming_calls import Gate, MetadataView, NoView, OpenGate
from quiver.links.outgoing import Dial, OnLate, OutgoingLink, Target
from quiver.links.request import Handlers, PeerRequest, R, Reply
from quiver.links.versions import SPOKEN
from quiver.model.errors import ShuttingDown
from quiver.protocol.packet import Buffer


class Peers:
    """Belongs to one event loop. `handlers` is what others may ask of this worker.

    Errors of the catalogue come back as they were raised. WorkerUnavailable: the connection broke before there was a
    response, and it is not known whether the call was carried out.

    `worker` may be beyond the `workers`: one that owns nothing, which others reach by the id of its node.
    """

    def __init__(
        self,
        worker: int,
        workers: int,
        dial: Dial,
        handlers: Handlers,
        view: MetadataView | None = None,
        *,
        gate: Gate | None = None,
    ) -> None:
        """With a `gate`, workers move between processes."""
        self.worker, self.workers = worker, workers
        self.view: MetadataView = view or NoView()
        """Set before the first link is accepted."""
        self._handlers, self._dial = handlers, dial
        self._gate, self._moves = gate or OpenGate(), gate is not None
        self._is_closed = False
        self.is_ending = False
        """All workers are being stopped: one that has stopped is not followed by another."""
        self._outgoing: dict[Target, OutgoingLink] = {}
        for target in range(workers):
            if target != worker:
                self._link(target)
        self._incoming: dict[IncomingLink | DirectChannel, None] = {}
        self.runs_here: Callable[[int], bool] = lambda worker: True
        """Whether a worker belongs to the same node."""
        self.node = ""
        """The id of this node, where workers move between nodes."""
        self.nodes: Callable[[], Sequence[str]] = list
        """The ids of nodes with a worker that owns nothing, but has a view of the metadata."""

    async def call(
        self,
        target: Target,
        request: PeerRequest[R],
        payload: Sequence[Buffer] = (),
        *,
        on_late: OnLate | None = None,
    ) -> Reply[R]:
        """Waits while too much is on its way to that worker.

        A caller that is cancelled ends the call there too, if that only waits. A result that comes all the same goes
        to `on_late`.
        """
        link = self._link(target)
        await link.room()
        return await link.begin(request, payload, on_late)

    def begin(
        self,
        target: Target,
        request: PeerRequest[R],
        payload: Sequence[Buffer] = (),
        *,
        on_late: OnLate | None = None,
    ) -> "asyncio.Future[Reply[R]]":
        """The same, queued before it returns: calls to one worker are begun there in this order. Overloaded when too
        much is on its way to it."""
        return self._link(target).begin(request, payload, on_late)

    def tell(self, target: Target, request: PeerRequest[Any], payload: Sequence[Buffer] = ()) -> None:
        """A call that nobody waits for. It may be lost."""
        self._link(target).tell(request, payload)

    def links_to(self, target: Target) -> OutgoingLink | None:
        """The link to a target, if there is one."""
        return self._outgoing.get(target)

    @property
    def known_nodes(self) -> list[str]:
        """To which there are links."""
        return [target for target in self._outgoing if isinstance(target, str)]

    def forget_node(self, node: str) -> None:
        """It is gone: calls to it fail."""
        if (link := self._outgoing.pop(node, None)) is not None:
            link.close()

    def accept(self, sock: socket.socket, version: int = SPOKEN.newest) -> None:
        """A link from another worker, which is this object's from here on, with the version of the protocol that it
        speaks."""
        if self._is_closed:
            sock.close()
            return
        link = IncomingLink(sock, self._handlers, self.view, self._gate, on_closed=self._forget, version=version)
        self._incoming[link] = None

    @property
    def local_end(self) -> LocalEnd:
        """For the links of other workers of this process."""
        return LocalEnd(self._accept_direct, self.node)

    def end(self) -> None:
        """All workers are being stopped: calls to those that have stopped fail at once, and wait for no successor."""
        self.is_ending = True
        for link in self._outgoing.values():
            link.end()

    def refuse_calls(self) -> None:
        """The gate has closed: calls that were not begun learn it now."""
        for link in list(self._incoming):  # one that breaks is forgotten
            link.calls.refuse()

    async def close(self, grace_seconds: float = 1.0) -> None:
        """Own calls without a response fail; those of others that were begun get their responses."""
        self._is_closed = True
        for link in self._outgoing.values():
            link.close()
        await asyncio.gather(*(link.finish(grace_seconds) for link in list(self._incoming)))

    def _link(self, target: Target) -> OutgoingLink:
        if (link := self._outgoing.get(target)) is not None:
            return link
        if self._is_closed:
            raise ShuttingDown()
        assert target != self.worker, "a worker does not call itself"
        link = OutgoingLink(self.worker, target, self._dial, lambda: max(0, self.view.revision), moves=self._moves)
        if self.is_ending:
            link.end()
        self._outgoing[target] = link
        return link

    def _accept_direct(self, caller: str, results: Results) -> Channel:
        channel = DirectChannel(caller, results, self._handlers, self.view, self._gate, on_closed=self._forget)
        self._incoming[channel] = None
        return channel

    def _forget(self, link: IncomingLink | DirectChannel) -> None:
        self._incoming.pop(link, None)
