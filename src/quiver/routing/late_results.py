"""Calls that lease something at another worker, for callers who may stop waiting."""

import asyncio
from collections.abc import Callable
from typing import Any

from quiver.links.peers import Peers
from quiver.links.request import PeerRequest, R, Reply


async def call_leasing(
    peers: Peers, worker: int, request: PeerRequest[R], give_back: Callable[[Reply[R]], Any]
) -> Reply[R]:
    """`give_back` gets a result that comes when the caller no longer waits."""
    call = peers.begin(worker, request, on_late=give_back)
    try:
        return await call
    except asyncio.CancelledError:
        if call.done() and not call.cancelled() and call.exception() is None:
            give_back(call.result())  # it came in the turn in which the caller gave up
        raise
