"""A worker without ports: its broker, its links to the other workers, and the facade that gateways call."""

import asyncio
import contextlib
from collections.abc import Callable

from quiver.broker.broker import Broker
from quiver.cluster.placement import Placement
from quiver.coordination.local import LocalCoordination
from quiver.coordination.port import Coordination
from quiver.links.incoming_calls import Gate
from quiver.links.outgoing import Dial
from quiver.links.peers import Peers
from quiver.links.request import DONE, Handlers, Reply
from quiver.model.errors import QuiverError
from quiver.routing.broker import RoutedBroker
from quiver.routing.coordination.handlers import CoordinationHandlers
from quiver.routing.coordination.remote import RemoteCoordination
from quiver.routing.coordination.requests import HasSeen
from quiver.routing.handlers import add_handlers
from quiver.routing.looks.numbers import SharedNote
from quiver.routing.scatter import LOOK_SECONDS, Scatter
from quiver.routing.started_view import StartedView

NewBroker = Callable[[Coordination | None], Broker]
"""Makes the broker of a worker, which is not started. Without a coordination, it has one of its own."""


class Worker:
    """Links of other workers go to `peers.accept`, also before `start`: worker 0 serves its coordination as soon as
    that is open, and other calls wait until this worker has started.
    """

    def __init__(
        self,
        placement: Placement,
        dial: Dial,
        new_broker: NewBroker,
        note: SharedNote | None = None,
        *,
        coordination: Coordination | None = None,
        gate: Gate | None = None,
    ) -> None:
        """Without `coordination`, it is in a journal of worker 0. With a `gate`, workers move between processes."""
        self.handlers = handlers = Handlers()
        self.peers = Peers(placement.worker, placement.worker_count, dial, handlers, gate=gate)
        if coordination is None and not placement.is_controller:
            coordination = RemoteCoordination(self.peers)
        self.local = new_broker(coordination)
        self._view = self.peers.view = StartedView(self.local.metadata.view)
        self.broker = RoutedBroker(self.local, self.peers, note)
        if isinstance(coordination := self.local.metadata.coordination, LocalCoordination):
            CoordinationHandlers(coordination, handlers)
        add_handlers(handlers, self.local)
        handlers.add(HasSeen, _has_seen)
        self._scatter = Scatter(self.peers)

    async def start(self) -> None:
        await self.local.start()
        self._view.start()
        self.local.metadata.view.after_commit = self._seen_by_all

    async def _seen_by_all(self) -> None:
        """So that a client finds what it has changed, whichever worker it asks next."""

        async def here() -> None:
            return

        await asyncio.gather(
            self._scatter.look(HasSeen(), here), *(self._seen_by(node) for node in self.peers.nodes())
        )

    async def _seen_by(self, node: str) -> None:
        """The worker of a node that owns nothing, and calls the others."""
        with contextlib.suppress(TimeoutError, QuiverError):
            await asyncio.wait_for(self.peers.call(node, HasSeen()), LOOK_SECONDS)


async def _has_seen(request: HasSeen, payload: memoryview) -> Reply[None]:
    return DONE
