"""Searches: one worker runs a search, and asks the owners of partitions for one slice after the other."""

from quiver.broker.broker import Broker
from quiver.links.outgoing import Target
from quiver.links.peers import Peers
from quiver.model.errors import SearchNotFound
from quiver.model.message import StoredMessage
from quiver.model.numbers import whole_number
from quiver.model.topic import Topic
from quiver.routing.owners import Owners
from quiver.routing.repeated import call_again
from quiver.routing.search.requests import Cancel, GetProgress, Looked, OpenWalk, StepWalk
from quiver.search.job import Progress
from quiver.search.partition_walk import Filter, WalkState
from quiver.search.request import SearchRequest
from quiver.search.topic_walk import Walk

_NODE = "node."


class RoutedSearches:
    """The id of a search names the worker that runs it, or the node where it is one that owns nothing."""

    def __init__(self, local: Broker, owners: Owners, peers: Peers) -> None:
        self._local, self._owners, self._peers = local, owners, peers
        local.searches.open_walk = self._open_walk

    async def begin(self, topic: str, request: SearchRequest) -> Progress:
        return _named(self._own_name, await self._local.searches.begin(topic, request))

    async def progress(self, id: str, *, after: int = 0, wait_seconds: float = 0) -> Progress:
        name, own_id = _parsed(id)
        if name == self._own_name:
            found = await self._local.searches.progress(own_id, after=after, wait_seconds=wait_seconds)
        else:
            target = self._target(id, name)
            found = (await self._peers.call(target, GetProgress(own_id, after, wait_seconds))).value
        return _named(name, found)

    async def cancel(self, id: str) -> Progress:
        name, own_id = _parsed(id)
        if name == self._own_name:
            return _named(name, await self._local.searches.cancel(own_id))
        return _named(name, (await self._peers.call(self._target(id, name), Cancel(own_id))).value)

    @property
    def _own_name(self) -> str:
        if self._owners.placement.owns_nothing:
            return f"{_NODE}{self._peers.node}"
        return str(self._owners.worker)

    def _target(self, id: str, name: str) -> Target:
        """Of another one."""
        if name.startswith(_NODE) and (node := name.removeprefix(_NODE)) in self._peers.nodes():
            return node
        worker = whole_number(name)
        if worker is None or worker >= self._peers.workers:
            raise SearchNotFound(search=id)
        return worker

    async def _open_walk(
        self, topic: Topic, number: int, request: SearchRequest, filter: Filter, cursor: int | None
    ) -> Walk:
        worker = self._owners.placement.partition_worker(topic.name, number)
        if worker == self._owners.worker:
            return await self._local.searches.open_own_walk(topic, number, request, filter, cursor)
        wanted = Looked(
            topic.id, number, request.where.text, filter.newest_first, filter.include_expired, filter.now_ms
        )
        reply = await self._peers.call(worker, OpenWalk(wanted, request.start, request.end, cursor))
        return RemoteWalk(self._peers, worker, wanted, reply.value)


class RemoteWalk:
    """Through a partition of another worker, or of its successor."""

    def __init__(self, peers: Peers, worker: int, wanted: Looked, state: WalkState) -> None:
        self._peers, self._worker, self._wanted, self._state = peers, worker, wanted, state
        self.number = wanted.partition
        self.scanned_messages = self.scanned_bytes = 0

    @property
    def edge_time_ms(self) -> int:
        return self._state.edge_time_ms

    @property
    def is_done(self) -> bool:
        return self.left == 0

    @property
    def left(self) -> int:
        return self._state.left

    @property
    def position(self) -> int:
        return self._state.high if self._wanted.newest_first else self._state.low

    async def step(self, limit: int) -> list[StoredMessage]:
        state = self._state._replace(scanned_bytes=0, scanned_messages=0)
        self._state, messages = await call_again(self._peers, self._worker, StepWalk(self._wanted, state, limit))
        self.scanned_messages += self._state.scanned_messages
        self.scanned_bytes += self._state.scanned_bytes
        return messages


def _named(name: str, progress: Progress) -> Progress:
    return progress._replace(id=f"{name}-{progress.id}")


def _parsed(id: str) -> tuple[str, str]:
    name, _, own_id = id.rpartition("-")
    return name, own_id
