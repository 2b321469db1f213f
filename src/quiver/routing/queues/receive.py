"""A receive from topics with several owners: they are asked in turn, then it waits at all of them."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from math import ceil

import msgspec

from quiver.broker.broker import Broker
from quiver.links.peers import Peers
from quiver.links.request import Reply
from quiver.model.errors import Overloaded, QuiverError, WorkerUnavailable
from quiver.model.queue import ReceiveRequest
from quiver.queues.receive import Received
from quiver.records.columns import KEY
from quiver.records.read import open_frame
from quiver.routing.late_results import call_leasing
from quiver.routing.queues.leased_runs import received_of, returned
from quiver.routing.queues.requests import LeasedRun, ReceiveOwned, SettleOwned
from quiver.system.backoff import Backoff
from quiver.system.clock import Clock

OwnedTopics = Mapping[int, Sequence[int]]
"""By worker: the ids of topics of which it owns partitions that are asked for."""
_FIRST_PAUSE_SECONDS, _LONGEST_PAUSE_SECONDS = 0.02, 0.5
"""Before a worker that could not be reached is asked again."""
_REMEMBERED_GROUPS = 10_000
_UNREACHED = (WorkerUnavailable, Overloaded)


class OwnedReceive:
    """Receives at one owner. What it leases for a caller who no longer waits is given back, uncounted."""

    def __init__(self, local: Broker, peers: Peers) -> None:
        self._local, self._peers, self.worker = local, peers, peers.worker
        self._catalogue = local.metadata.catalogue

    async def receive(self, worker: int, request: ReceiveRequest) -> list[Received]:
        if worker == self._peers.worker:
            return await self._local.queues.receive(request)
        give_back = partial(self._give_back, worker)
        reply = await call_leasing(self._peers, worker, ReceiveOwned(request), give_back)
        try:
            return received_of(reply, self._catalogue)
        except QuiverError:
            give_back(reply)
            raise

    def _give_back(self, worker: int, reply: "Reply[list[LeasedRun]]") -> None:
        if reply.value:
            self._peers.tell(worker, SettleOwned(returned(reply.value)))


class _Keys:
    """Of the messages that one receive has got: at most so many. They are counted where more than one may be got."""

    def __init__(self, most: int | None) -> None:
        self._most = most
        self._seen: set[tuple[int, int, bytes | None]] = set()

    @property
    def left(self) -> int | None:
        return None if self._most is None else self._most - len(self._seen)

    def admits(self, one: Received) -> bool:
        return self.left is None or (self._most != 1 and len(_keys_of(one) - self._seen) <= self.left)

    def add(self, one: Received) -> None:
        if self._most is not None:
            self._seen |= _ANY_KEY if self._most == 1 else _keys_of(one)


_ANY_KEY = {(0, 0, None)}


def _keys_of(one: Received) -> set[tuple[int, int, bytes | None]]:
    keys = open_frame(one.run.frame).column(KEY)
    found = [None] if keys is None else keys.unique().to_pylist()
    return {(one.topic.id, one.run.partition, key) for key in found}


class _Round:
    """What one receive has got so far."""

    def __init__(self, request: ReceiveRequest, topics: OwnedTopics, deadline: float) -> None:
        self._request, self._topics = request, topics
        self.deadline = deadline
        self.found: list[Received] = []
        self.problems: dict[int, QuiverError] = {}
        """By worker."""
        self._messages, self._bytes = request.max_messages, request.max_bytes
        self._keys = _Keys(request.max_keys)

    def part(self, worker: int, wait_ms: int) -> ReceiveRequest:
        """What is asked of one owner."""
        return msgspec.structs.replace(
            self._request,
            topic_ids=self._topics[worker],
            max_messages=self._messages,
            max_bytes=self._bytes,
            max_keys=self._keys.left,
            wait_ms=wait_ms,
        )

    @property
    def is_open(self) -> bool:
        """Whether more may be asked for."""
        return self._has_room and self._keys.left != 0

    @property
    def _has_room(self) -> bool:
        return self._messages > 0 and self._bytes > 0 and not (self.found and self._request.own_first)

    def add(self, received: Sequence[Received]) -> list[Received]:
        """Takes what one owner has leased; returns what is too much. The first fits, as it was asked for."""
        is_first = not self.found
        for place, one in enumerate(received):
            count = one.run.end - one.run.start
            is_too_much = not is_first and (
                not self._has_room or count > self._messages or not self._keys.admits(one)
            )
            if is_too_much:
                return list(received[place:])
            self.found.append(one)
            self._keys.add(one)
            self._messages -= count
            self._bytes -= len(one.run.frame)
        return []

    def check(self, *, is_over: bool) -> None:
        """Raises what is wrong, if nothing was found: owners that cannot be reached only if no other is left to ask
        or to wait for."""
        if self.found:
            return
        refusals = [error for error in self.problems.values() if not isinstance(error, _UNREACHED)]
        if refusals:
            raise refusals[0]
        if is_over and len(self.problems) == len(self._topics):
            raise next(iter(self.problems.values()))


class RoutedReceive:
    """`give_back` returns messages to their owners, without waiting."""

    def __init__(self, owned: OwnedReceive, give_back: Callable[[Sequence[Received]], None], clock: Clock) -> None:
        self._owned, self._give_back, self._clock = owned, give_back, clock
        self._next: dict[str, int] = {}
        """By group: the worker that is asked first."""

    async def receive(self, request: ReceiveRequest, topics: OwnedTopics) -> list[Received]:
        round_ = _Round(request, topics, self._clock.monotonic() + request.wait_ms / 1000)
        order = self._order(request, sorted(topics))
        try:
            if len(order) > 1 or not request.wait_ms:
                await self._ask(round_, order)
            if not round_.found and self._left_ms(round_) > 0:
                await self._wait(round_, order)
        except BaseException:
            self._give_back(round_.found)
            raise
        return round_.found

    def _order(self, request: ReceiveRequest, workers: list[int]) -> list[int]:
        """From the worker after the last one that was asked, or from this one."""
        first = self._owned.worker if request.own_first else self._next.get(request.group, 0)
        return [worker for worker in workers if worker >= first] + [worker for worker in workers if worker < first]

    def _asked(self, group: str, worker: int) -> None:
        if len(self._next) > _REMEMBERED_GROUPS:
            self._next.clear()
        self._next[group] = worker + 1

    async def _ask(self, round_: _Round, order: Sequence[int]) -> None:
        """One after the other, without waiting, until there is enough."""
        for worker in order:
            request = round_.part(worker, 0)
            try:
                self._give_back(round_.add(await self._owned.receive(worker, request)))
            except QuiverError as error:
                round_.problems[worker] = error
            self._asked(request.group, worker)
            if not round_.is_open:
                return
        round_.check(is_over=self._left_ms(round_) == 0)

    async def _wait(self, round_: _Round, order: Sequence[int]) -> None:
        """At all of them, for the first that has something."""
        waiting = {asyncio.ensure_future(self._wait_at(worker, round_)) for worker in order}
        try:
            while waiting and not round_.found:
                done, waiting = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
                await self._take(done, round_)
        finally:
            for task in waiting:
                task.add_done_callback(self._came_late)
                task.cancel()

    async def _take(self, done: "set[asyncio.Task[list[Received]]]", round_: _Round) -> None:
        problem: BaseException | None = None
        for task in done:
            problem = task.exception() or problem
            if task.exception() is None:
                self._give_back(round_.add(task.result()))
        if problem is not None and not round_.found:
            raise problem

    def _came_late(self, task: "asyncio.Task[list[Received]]") -> None:
        if not task.cancelled() and task.exception() is None:
            self._give_back(task.result())

    async def _wait_at(self, worker: int, round_: _Round) -> list[Received]:
        """One that cannot be reached is asked again: it is being started, and may have messages then."""
        backoff = Backoff(_FIRST_PAUSE_SECONDS, _LONGEST_PAUSE_SECONDS)
        while (left_ms := self._left_ms(round_)) > 0:
            try:
                return await self._owned.receive(worker, round_.part(worker, left_ms))
            except _UNREACHED:
                await asyncio.sleep(min(backoff.next_seconds(), left_ms / 1000))
        return []

    def _left_ms(self, round_: _Round) -> int:
        return max(0, ceil((round_.deadline - self._clock.monotonic()) * 1000))
