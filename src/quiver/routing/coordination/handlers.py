"""Worker 0 serves its coordination to the others, from the moment at which its journal is open."""

from quiver.coordination.local import LocalCoordination
from quiver.coordination.port import ChangeBatch, KeyRange, KeyValue, Outcome
from quiver.links.request import DONE, Handlers, Reply
from quiver.routing.coordination.requests import Commit, Get, GrantLease, KeepAlive, NextBatch, Range, Revoke


class CoordinationHandlers:
    def __init__(self, coordination: LocalCoordination, handlers: Handlers) -> None:
        self._coordination = coordination
        handlers.add(Get, self._get)
        handlers.add(Range, self._range)
        handlers.add(Commit, self._commit)
        handlers.add(NextBatch, self._next_batch)
        handlers.add(GrantLease, self._grant_lease)
        handlers.add(KeepAlive, self._keep_alive)
        handlers.add(Revoke, self._revoke)

    async def _opened(self) -> LocalCoordination:
        await self._coordination.opened.wait()
        return self._coordination

    async def _get(self, request: Get, payload: memoryview) -> Reply[KeyValue | None]:
        return Reply(await (await self._opened()).get(request.key))

    async def _range(self, request: Range, payload: memoryview) -> Reply[KeyRange]:
        return Reply(await (await self._opened()).range(request.prefix))

    async def _commit(self, request: Commit, payload: memoryview) -> Reply[Outcome]:
        return Reply(await (await self._opened()).commit(request.expected, request.operations))

    async def _next_batch(self, request: NextBatch, payload: memoryview) -> Reply[ChangeBatch]:
        opened = await self._opened()
        return Reply(await opened.next_batch(request.prefix, request.after_revision, is_first=request.is_first))

    async def _grant_lease(self, request: GrantLease, payload: memoryview) -> Reply[int]:
        return Reply(await (await self._opened()).grant_lease(request.ttl_ms))

    async def _keep_alive(self, request: KeepAlive, payload: memoryview) -> Reply[bool]:
        return Reply(await (await self._opened()).keep_alive(request.lease_id))

    async def _revoke(self, request: Revoke, payload: memoryview) -> Reply[None]:
        await (await self._opened()).revoke(request.lease_id)
        return DONE
