"""A watch of all keys of a cluster, over members of etcd that come and go."""

import asyncio
import logging
from collections.abc import AsyncGenerator
from contextlib import aclosing

from quiver.coordination.etcd.address import Endpoint
from quiver.coordination.etcd.client import FAILED, EtcdClient, Refused
from quiver.coordination.etcd.keys import Keys
from quiver.coordination.etcd.messages import WatchLine, WatchResult, decode
from quiver.coordination.port import Change, ChangeBatch
from quiver.model.errors import CoordinationUnavailable
from quiver.system.backoff import Backoff

logger = logging.getLogger(__name__)

_SILENT_SECONDS = 2.0
"""After this long without an event the member is asked whether it is there and belongs to a quorum."""


class EtcdWatch:
    """What happens after a revision. None is the end: only all keys tell what is missing, because the changes are
    forgotten or etcd was set back to an earlier state."""

    def __init__(self, client: EtcdClient, keys: Keys, after_revision: int) -> None:
        self._client, self._keys = client, keys
        self._revision = after_revision

    async def batches(self) -> AsyncGenerator[ChangeBatch | None, None]:
        backoff = Backoff(0.05, 1.0)
        while True:
            endpoint, problem = await self._client.use(), "it has ended"
            try:
                async with aclosing(self._results(endpoint)) as results:
                    async for result in results:
                        if result.compact_revision or (result.created and await self._is_set_back(result)):
                            yield None
                            return
                        batch = self._batch(result)
                        if batch is not None:
                            backoff.reset()
                            yield batch
            except (*FAILED, Refused, CoordinationUnavailable) as error:
                problem = str(error) or type(error).__name__
            logger.info("a watch of etcd at %s goes on at the next endpoint: %s", endpoint, problem)
            self._client.leave(endpoint, problem)
            await asyncio.sleep(backoff.next_seconds())

    async def _results(self, endpoint: Endpoint) -> AsyncGenerator[WatchResult, None]:
        selected = self._keys.begin_with("")
        request = {"create_request": selected | {"start_revision": str(self._revision + 1), "progress_notify": True}}
        async with aclosing(self._client.stream(endpoint, "/v3/watch", request)) as lines:
            while True:
                data = await self._next_line(endpoint, lines)
                if data is None:
                    return
                line = decode(data, WatchLine)
                if line.result is None or (line.result.canceled and not line.result.compact_revision):
                    await self._client.renew_token()  # etcd does not say whether it is the token
                    refused = line.error.message if line.error else line.result.cancel_reason if line.result else ""
                    raise ConnectionResetError(refused or "the watch was ended")
                self._client.check_cluster(line.result.header)
                yield line.result

    async def _next_line(self, endpoint: Endpoint, lines: AsyncGenerator[bytes, None]) -> bytes | None:
        """While nothing comes, the member is asked again and again whether it can respond at all."""
        pending = asyncio.get_running_loop().create_task(_next_of(lines))
        try:
            while not (await asyncio.wait([pending], timeout=_SILENT_SECONDS))[0]:
                await self._client.check(endpoint, self._keys.marker)
            return pending.result()
        finally:
            if not pending.done():
                pending.cancel()
                await asyncio.gather(pending, return_exceptions=True)

    async def _is_set_back(self, result: WatchResult) -> bool:
        """Whether etcd knows less than the watcher; a single member may only be late."""
        if result.header.revision >= self._revision:
            return False
        return await self._client.read_revision(self._keys.marker) < self._revision

    def _batch(self, result: WatchResult) -> ChangeBatch | None:
        """All events of a revision come together. A result without events tells how far the watch is."""
        if result.created:
            return None
        new = [event for event in result.events if event.kv.mod_revision > self._revision]
        revision = max(
            (event.kv.mod_revision for event in new), default=0 if result.events else result.header.revision
        )
        if revision <= self._revision:
            return None
        self._revision = revision
        changes = []
        for event in new:
            found = self._keys.read(event.kv)
            if found is not None:
                value = None if event.type == "DELETE" else found.value
                changes.append(Change(found.key, value, found.revision))
        return ChangeBatch(revision, changes)


async def _next_of(lines: AsyncGenerator[bytes, None]) -> bytes | None:
    async for line in lines:
        return line
    return None
