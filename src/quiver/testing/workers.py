"""Several workers of one broker in one event loop: real brokers in memory, with real links between them.

async with WorkerSet(2) as workers:
    topic = await workers[0].broker.create_topic("t", {"partitions": 4})
    await workers.kill(1)
    await workers.start(1)
"""

import asyncio
import socket
from types import TracebackType

import msgspec

from quiver.broker.broker import Broker
from quiver.broker.settings import BrokerSettings
from quiver.cluster.placement import Placement
from quiver.coordination.port import Coordination
from quiver.links.outgoing import Dial
from quiver.routing.looks.numbers import OwnNote
from quiver.routing.worker import Worker
from quiver.system.clock import Clock
from quiver.testing.held_storage import HeldStorage


class _Place:
    """Where one worker after the other runs: what outlives a kill."""

    def __init__(self) -> None:
        self.storage = HeldStorage()
        self.worker: Worker | None = None
        self.inbox: list[socket.socket] = []
        """Links that others made while no worker was there."""
        self.links: list[socket.socket] = []
        """Of the worker, and the other ends of those that it made: they end with it."""

    def take(self, link: socket.socket) -> None:
        if self.worker is None:
            self.inbox.append(link)
        else:
            self.links.append(link)
            self.worker.peers.accept(link)


class WorkerSet:
    """Each worker has a storage of its own, whose calls a test can hold (`storage(n).hold`)."""

    def __init__(self, count: int = 2, settings: BrokerSettings | None = None, clock: Clock | None = None) -> None:
        self._settings, self._clock = settings or BrokerSettings(), clock
        self._places = [_Place() for _ in range(count)]
        self._killed: list[Worker] = []
        self._note = OwnNote()

    async def __aenter__(self) -> "WorkerSet":
        await asyncio.gather(*(self.start(number) for number in range(len(self._places))))
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for place in self._places:
            place.storage.release_all()
        running = [place.worker for place in reversed(self._places) if place.worker is not None]
        for worker in (*running, *self._killed):
            await worker.local.stop()
        await asyncio.gather(*(worker.peers.close(0) for worker in (*running, *self._killed)))
        for place in self._places:
            for sock in place.inbox:
                sock.close()

    def __getitem__(self, number: int) -> Worker:
        worker = self._places[number].worker
        assert worker is not None, f"worker {number} was killed"
        return worker

    def __len__(self) -> int:
        return len(self._places)

    def storage(self, number: int) -> HeldStorage:
        return self._places[number].storage

    async def start(self, number: int) -> Worker:
        """Also after a kill: it finds what was written until then."""
        place = self._places[number]
        settings = msgspec.structs.replace(self._settings, placement=Placement(number, len(self._places)))

        def new_broker(coordination: Coordination | None) -> Broker:
            return Broker(place.storage, settings=settings, clock=self._clock, coordination=coordination)

        worker = place.worker = Worker(settings.placement, self._dial_from(place), new_broker, self._note)
        inbox, place.inbox = place.inbox, []
        for sock in inbox:
            place.take(sock)
        await worker.start()
        return worker

    def kill(self, number: int) -> None:
        """From now on it reaches nobody, and what it has not written yet is lost."""
        place, worker = self._places[number], self[number]
        self._killed.append(worker)
        old, place.storage, place.worker = place.storage, place.storage.as_after_a_kill(), None
        links, place.links = place.links, []
        for sock in links:
            if sock.fileno() >= 0:
                sock.shutdown(socket.SHUT_RDWR)
        old.release_all()

    def _dial_from(self, place: _Place) -> Dial:
        storage = place.storage

        async def dial(target: int) -> socket.socket:
            if place.storage is not storage:
                raise OSError("this worker was killed")
            ours, theirs = socket.socketpair()
            place.links += [ours, theirs]
            self._places[target].take(theirs)
            return ours

        return dial
