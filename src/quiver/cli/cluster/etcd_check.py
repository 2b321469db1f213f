"""`quiver cluster etcd`: whether an etcd can be used for coordination, and how quick it is."""

import asyncio
from collections.abc import Awaitable
from contextlib import aclosing, closing
from statistics import median
from typing import Any

from quiver.coordination.etcd.address import Endpoint, EtcdAddress
from quiver.coordination.etcd.client import FAILED, EtcdClient, Refused
from quiver.coordination.etcd.coordination import EtcdCoordination
from quiver.coordination.etcd.members import expanded
from quiver.coordination.etcd.messages import StatusAnswer
from quiver.coordination.port import Put
from quiver.model.errors import CoordinationUnavailable
from quiver.system.clock import SystemClock
from quiver.system.randomness import SystemRandomness

_TIMES = 50
_LEASE_MS = 10_000
_MEMBER_SECONDS = 2.0


async def check_etcd(address: EtcdAddress) -> dict[str, Any]:
    """Writes a key of its own, which goes with its lease. Raises CoordinationUnavailable, InvalidSetting."""
    engine = EtcdCoordination(address)
    try:
        members = await asyncio.gather(*(_member(address, each) for each in await expanded(address.endpoints)))
        if all(member["version"] is None for member in members):
            raise CoordinationUnavailable(problem=members[0]["problem"])
        return {"name": address.name, "members": members} | await _times(engine)
    finally:
        await engine.close()


async def _member(address: EtcdAddress, endpoint: Endpoint) -> dict[str, Any]:
    with closing(EtcdClient(address._replace(endpoints=(endpoint,)))) as client:
        client.call_seconds = _MEMBER_SECONDS
        try:
            status = await client.call("/v3/maintenance/status", {}, StatusAnswer)
        except (*FAILED, Refused, CoordinationUnavailable) as error:
            return {"endpoint": str(endpoint), "version": None, "problem": client.problem or str(error)}
    problem = None if status.leader else "it knows no leader"
    return {"endpoint": str(endpoint), "version": status.version, "problem": problem}


async def _times(engine: EtcdCoordination) -> dict[str, Any]:
    key = f"check/{SystemRandomness().token(8).hex()}"
    clock = SystemClock()

    async def milliseconds(call: Awaitable[Any]) -> float:
        begun = clock.monotonic()
        await call
        return (clock.monotonic() - begun) * 1000

    lease = await engine.grant_lease(_LEASE_MS)
    try:
        writes, watched = [], []
        async with aclosing(engine.watch(key)) as watch:
            await anext(watch)
            for number in range(_TIMES):
                seen = asyncio.ensure_future(anext(watch))
                took = await milliseconds(engine.commit([], [Put(key, b"%d" % number, lease)]))
                writes.append(took)
                watched.append(took + await milliseconds(seen))
        reads = [await milliseconds(engine.get(key)) for _ in range(_TIMES)]
    finally:
        await engine.revoke(lease)
    return {
        "read_ms": round(median(reads), 2),
        "write_ms": round(median(writes), 2),
        "write_to_watch_ms": round(median(watched), 2),
    }
