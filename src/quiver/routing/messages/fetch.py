"""A fetch of partitions that several workers own: each reads its own, and the first that has more ends the wait."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence

from quiver.broker.broker import Broker
from quiver.links.peers import Peers
from quiver.links.request import Reply
from quiver.messages.fetch import FetchedSlice, FetchOptions, FetchPart, release
from quiver.model.errors import QuiverError
from quiver.protocol.link_messages import link_error
from quiver.routing.messages.near import NearReads
from quiver.routing.messages.requests import Fetch, PartFound
from quiver.routing.owners import Owners
from quiver.storage.memory.slice import MemorySlice

Parts = dict[int, list[tuple[int, FetchPart]]]
"""By worker: the parts of a request with their places in it."""


class RoutedFetch:
    def __init__(self, local: Broker, owners: Owners, peers: Peers) -> None:
        self._local, self._owners, self._peers = local, owners, peers
        self.near = NearReads(self._from_owner)

    async def fetch(self, parts: Sequence[FetchPart], options: FetchOptions) -> list[FetchedSlice]:
        """As `Broker.fetch`. Slices of other workers are in memory."""
        by_worker, answer = self._split(parts)
        if len(by_worker) == 1 and not any(answer):
            [worker] = by_worker
            return await self._of_worker(worker, parts, options)
        if any(answer):  # an error ends the wait
            options = options.with_(max_wait_ms=0)
        return await _Gathering(self._of_worker, by_worker, answer, options).run(self._local.clock.monotonic)

    def _split(self, parts: Sequence[FetchPart]) -> tuple[Parts, list[FetchedSlice | None]]:
        """Parts of topics that are not there have their answer already."""
        by_worker: Parts = {}
        answer: list[FetchedSlice | None] = [None] * len(parts)
        for place, part in enumerate(parts):
            try:
                worker = self._owners.of_partition(part.topic_id, part.partition)
            except QuiverError as error:
                answer[place] = FetchedSlice(part, None, error=error)
            else:
                by_worker.setdefault(worker, []).append((place, part))
        return by_worker, answer

    async def _of_worker(self, worker: int, parts: Sequence[FetchPart], options: FetchOptions) -> list[FetchedSlice]:
        if worker == self._owners.worker:
            return await self._local.fetch(parts, options)
        if options.nearest and not options.headers_only and self.near.has_some(worker, parts):
            return await self.near.fetch(worker, parts, options)
        return await self._from_owner(worker, parts, options)

    async def _from_owner(self, worker: int, parts: Sequence[FetchPart], options: FetchOptions) -> list[FetchedSlice]:
        try:
            reply = await self._peers.call(worker, Fetch(list(parts), options))
        except QuiverError as error:  # fails only the parts of that worker
            return [FetchedSlice(part, None, error=error) for part in parts]
        return _slices(parts, reply)


OfWorker = Callable[[int, Sequence[FetchPart], FetchOptions], Awaitable[list[FetchedSlice]]]


class _Gathering:
    """One request to several workers."""

    def __init__(
        self, of_worker: OfWorker, parts: Parts, answer: list[FetchedSlice | None], options: FetchOptions
    ) -> None:
        self._of_worker, self._parts, self._answer, self._options = of_worker, parts, answer, options
        self._share = max(1, options.max_bytes // max(1, len(parts)))
        """The bytes that each worker may return at first sight."""

    async def run(self, now: Callable[[], float]) -> list[FetchedSlice]:
        deadline = now() + self._options.max_wait_ms / 1000
        while True:
            read = await asyncio.gather(*(self._ask(worker, wait_ms=0, min_bytes=0) for worker in self._parts))
            found = dict(zip(self._parts, read, strict=True))
            remaining_ms = int((deadline - now()) * 1000)
            if remaining_ms <= 0 or self._is_met(found):
                return self._put_together(found)
            sizes = {worker: _size(answer) for worker, answer in found.items()}
            for answer in found.values():
                release(answer)
            worker, answer = await self._first_news(sizes, remaining_ms)
            found = {other: [part._replace(slice=None) for part in each] for other, each in found.items()}
            found[worker] = answer
            if self._is_met(found) or now() >= deadline:
                return self._put_together(found)
            release(answer)

    async def _ask(self, worker: int, *, wait_ms: int, min_bytes: int) -> list[FetchedSlice]:
        options = self._options.with_(max_wait_ms=wait_ms, min_bytes=min_bytes, max_bytes=self._share)
        return await self._of_worker(worker, [part for _, part in self._parts[worker]], options)

    async def _first_news(self, sizes: dict[int, int], wait_ms: int) -> tuple[int, list[FetchedSlice]]:
        """The first worker that has more than it had, or whose time is up."""
        tasks = {
            asyncio.ensure_future(self._ask(worker, wait_ms=wait_ms, min_bytes=size + 1)): worker
            for worker, size in sizes.items()
        }
        try:
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in tasks:
                task.cancel()
        first, *others = sorted(done, key=lambda task: tasks[task])
        ended = await asyncio.gather(*others, *(tasks.keys() - done), return_exceptions=True)
        for answer in ended:
            if isinstance(answer, list):
                release(answer)
        return tasks[first], first.result()

    def _is_met(self, found: dict[int, list[FetchedSlice]]) -> bool:
        has_error = any(part.error is not None for answer in found.values() for part in answer)
        return has_error or sum(map(_size, found.values())) >= self._options.min_bytes

    def _put_together(self, found: dict[int, list[FetchedSlice]]) -> list[FetchedSlice]:
        """In the order of the request, and no more bytes than it wants, unless a single frame is larger."""
        answer = list(self._answer)
        for worker, fetched in found.items():
            for (place, _), part in zip(self._parts[worker], fetched, strict=True):
                answer[place] = part
        total, whole = 0, [part for part in answer if part is not None]
        for place, part in enumerate(whole):
            if part.slice is None:
                continue
            if total and total + part.slice.length > self._options.max_bytes:
                part.slice.release()
                whole[place] = part._replace(slice=None, aborted=())
            else:
                total += part.slice.length
        return whole


def _slices(parts: Sequence[FetchPart], reply: Reply[list[PartFound]]) -> list[FetchedSlice]:
    data = memoryview(reply.payload[0] if reply.payload else b"")
    fetched, place = [], 0
    for part, found in zip(parts, reply.value, strict=True):
        end = place + (found.length or 0)
        fetched.append(
            FetchedSlice(
                part,
                None if found.length is None else MemorySlice([data[place:end]], found.end_offset),
                found.log_start,
                found.high_watermark,
                found.last_stable,
                found.epoch,
                found.aborted,
                None if found.error is None else link_error(found.error),
                found.ttl_ms,
                found.removed_count,
            )
        )
        place = end
    return fetched


def _size(answer: Sequence[FetchedSlice]) -> int:
    return sum(part.slice.length for part in answer if part.slice is not None)
