"""The other workers of the broker: calls to them, and calls from them."""

import asyncio
import socket
from collections.abc import Sequence
from typing import Any

from quiver.links.incoming import IncomingLink, MetadataView, NoView
from quiver.links.outgoing import Dial, OnLate, OutgoingLink
from quiver.links.request import Handlers, PeerRequest, R, Reply
from quiver.protocol.packet import Buffer


class Peers:
    """Belongs to one event loop. `handlers` is what others may ask of this worker.

    Errors of the catalogue come back as they were raised. WorkerUnavailable: the connection broke before there was a
    response, and it is not known whether the call was carried out.
    """

    def __init__(
        self, worker: int, workers: int, dial: Dial, handlers: Handlers, view: MetadataView | None = None
    ) -> None:
        self.worker, self.workers = worker, workers
        self.view: MetadataView = view or NoView()
        """Set before the first link is accepted."""
        self._handlers = handlers
        self._outgoing = {
            target: OutgoingLink(worker, target, dial, lambda: max(0, self.view.revision))
            for target in range(workers)
            if target != worker
        }
        self._incoming: dict[IncomingLink, None] = {}
        self._is_closed = False
        self.is_ending = False
        """All workers are being stopped: one that has stopped is not followed by another."""

    async def call(
        self, worker: int, request: PeerRequest[R], payload: Sequence[Buffer] = (), *, on_late: OnLate | None = None
    ) -> Reply[R]:
        """Waits while too much is on its way to that worker.

        A caller that is cancelled ends the call there too, if that only waits. A result that comes all the same goes
        to `on_late`.
        """
        link = self._outgoing[worker]
        await link.room()
        return await link.begin(request, payload, on_late)

    def begin(
        self, worker: int, request: PeerRequest[R], payload: Sequence[Buffer] = (), *, on_late: OnLate | None = None
    ) -> "asyncio.Future[Reply[R]]":
        """The same, queued before it returns: calls to one worker are begun there in this order. Overloaded when too
        much is on its way to it."""
        return self._outgoing[worker].begin(request, payload, on_late)

    def tell(self, worker: int, request: PeerRequest[Any], payload: Sequence[Buffer] = ()) -> None:
        """A call that nobody waits for. It may be lost."""
        self._outgoing[worker].tell(request, payload)

    def accept(self, sock: socket.socket) -> None:
        """A link from another worker, which is this object's from here on."""
        if self._is_closed:
            sock.close()
            return
        link = IncomingLink(sock, self._handlers, self.view, on_closed=self._forget)
        self._incoming[link] = None

    def end(self) -> None:
        """All workers are being stopped: calls to those that have stopped fail at once, and wait for no successor."""
        self.is_ending = True
        for link in self._outgoing.values():
            link.end()

    async def close(self, grace_seconds: float = 1.0) -> None:
        """Own calls without a response fail; those of others that were begun get their responses."""
        self._is_closed = True
        for link in self._outgoing.values():
            link.close()
        await asyncio.gather(*(link.close(grace_seconds) for link in list(self._incoming)))

    def _forget(self, link: IncomingLink) -> None:
        self._incoming.pop(link, None)
