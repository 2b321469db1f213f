"""The engine `etcd`: keys in etcd, for all brokers of a cluster.

Reads are linearizable. A transaction that would change nothing puts the marker (`Keys`), so its revision comes to
every watch, also where others use the same etcd.
"""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from typing import Any, TypeVar

from quiver.coordination.etcd.address import EtcdAddress
from quiver.coordination.etcd.client import EtcdClient, HasHeader, Refused
from quiver.coordination.etcd.keys import Keys
from quiver.coordination.etcd.messages import (
    Answer,
    CommitAnswer,
    GrantAnswer,
    KeepAliveAnswer,
    LeaseLife,
    RangeAnswer,
    StoredKey,
)
from quiver.coordination.etcd.watch import EtcdWatch
from quiver.coordination.port import (
    OPERATIONS,
    Change,
    ChangeBatch,
    Expected,
    KeyRange,
    KeyValue,
    Operation,
    Outcome,
    Put,
    check_transaction,
)
from quiver.model.errors import CoordinationUnavailable, InvalidRequest, InvalidSetting
from quiver.system.network import Network

T = TypeVar("T", bound=HasHeader)

_PAGE_KEYS = 500
_INVALID, _NOT_FOUND, _TOO_LARGE, _OUT_OF_RANGE = 3, 5, 8, 11
_WAIT_SECONDS = 0.5


class EtcdCoordination:
    """While etcd is away, watches wait and everything else raises CoordinationUnavailable after a few seconds."""

    def __init__(self, address: EtcdAddress, network: Network | None = None) -> None:
        self.client = EtcdClient(address, network)
        self._keys = Keys(address.prefix)

    @property
    def problem(self) -> str | None:
        """Why etcd cannot be used now, as far as is known: for readiness."""
        return self.client.problem

    async def close(self) -> None:
        self.client.close()

    async def get(self, key: str) -> KeyValue | None:
        answer = await self._read({"key": self._keys.named(key)})
        return self._keys.read(answer.kvs[0]) if answer.kvs else None

    async def range(self, prefix: str) -> KeyRange:
        while True:
            try:
                return await self._range(prefix)
            except Refused as refused:
                if refused.code != _OUT_OF_RANGE:
                    raise _setting(refused) from refused
            # the state that the first page is of was compacted before the last page

    async def commit(self, expected: Sequence[Expected], operations: Sequence[Operation]) -> Outcome:
        check_transaction(expected, operations)
        marker = {"request_put": {"key": self._keys.marker}}
        changes = [self._change(each) for each in operations]
        is_marked = len(changes) < OPERATIONS and not any(isinstance(each, Put) for each in operations)
        request = {
            "compare": [
                {"key": self._keys.named(each.key), "target": "MOD", "mod_revision": str(each.revision)}
                for each in expected
            ],
            "success": [*changes, marker] if is_marked else changes,
            "failure": [marker],
        }
        try:
            answer = await self.client.call("/v3/kv/txn", request, CommitAnswer, may_repeat=False)
        except Refused as refused:
            if refused.code == _NOT_FOUND:
                return await self._without_lease(operations)
            if refused.code in (_INVALID, _TOO_LARGE):
                raise InvalidRequest(problem=f"etcd: {refused}") from refused
            raise _setting(refused) from refused
        return Outcome(answer.succeeded, answer.header.revision)

    async def watch(self, prefix: str, after_revision: int = 0) -> AsyncGenerator[ChangeBatch, None]:
        while True:
            if not after_revision:
                batch = await self._everything(prefix)
                after_revision = batch.revision
                yield batch
            async with aclosing(EtcdWatch(self.client, self._keys, after_revision).batches()) as batches:
                async for found in batches:
                    if found is None:
                        after_revision = 0
                        break
                    changes = [change for change in found.changes if change.key.startswith(prefix)]
                    yield ChangeBatch(found.revision, changes)

    async def grant_lease(self, ttl_ms: int) -> int:
        """etcd counts in seconds, and no lease is shorter than 1.5 of its elections. A lease that nobody got to know,
        because the response was lost, ends by itself."""
        request = {"TTL": str(max(1, -(-ttl_ms // 1000)))}
        return (await self._call("/v3/lease/grant", request, GrantAnswer)).id

    async def keep_alive(self, lease_id: int) -> bool:
        answer = await self._call("/v3/lease/keepalive", {"ID": str(lease_id)}, KeepAliveAnswer)
        return answer.result.ttl > 0

    async def revoke(self, lease_id: int) -> None:
        try:
            await self.client.call("/v3/lease/revoke", {"ID": str(lease_id)}, Answer)
        except Refused as refused:
            if refused.code != _NOT_FOUND:
                raise _setting(refused) from refused

    async def _call(self, path: str, request: dict[str, Any], kind: type[T]) -> T:
        try:
            return await self.client.call(path, request, kind)
        except Refused as refused:
            raise _setting(refused) from refused

    async def _read(self, request: dict[str, Any]) -> RangeAnswer:
        return await self._call("/v3/kv/range", request, RangeAnswer)

    async def _range(self, prefix: str) -> KeyRange:
        """Page by page, all of one revision."""
        request = self._keys.begin_with(prefix) | {"limit": str(_PAGE_KEYS)}
        found: list[StoredKey] = []
        while True:
            answer = await self.client.call("/v3/kv/range", request, RangeAnswer)
            found += answer.kvs
            if not answer.more:
                break
            request |= {"key": self._keys.after(found[-1].key)}
            request.setdefault("revision", str(answer.header.revision))
        items = [item for item in map(self._keys.read, found) if item is not None]
        return KeyRange(int(request.get("revision", answer.header.revision)), items)

    async def _everything(self, prefix: str) -> ChangeBatch:
        while True:
            try:
                revision, items = await self.range(prefix)
            except CoordinationUnavailable:
                await asyncio.sleep(_WAIT_SECONDS)
            else:
                return ChangeBatch(revision, [Change(*item) for item in items], is_complete=True)

    def _change(self, operation: Operation) -> dict[str, Any]:
        key = self._keys.named(operation.key)
        if isinstance(operation, Put):
            return {"request_put": {"key": key, "value": operation.value, "lease": str(operation.lease_id)}}
        return {"request_delete_range": {"key": key}}

    async def _without_lease(self, operations: Sequence[Operation]) -> Outcome:
        """etcd does not say which lease is missing, nor at which revision."""
        revision = (await self._call("/v3/kv/put", {"key": self._keys.marker}, Answer)).header.revision
        leases = dict.fromkeys(each.lease_id for each in operations if isinstance(each, Put) and each.lease_id)
        for lease_id in leases:
            life = await self._call("/v3/lease/timetolive", {"ID": str(lease_id)}, LeaseLife)
            if life.ttl <= 0:
                return Outcome(False, revision, lease_id)
        return Outcome(False, revision)


def _setting(refused: Refused) -> InvalidSetting:
    return InvalidSetting(setting="etcd", problem=f"etcd refuses it: {refused}")
