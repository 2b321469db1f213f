"""Calls whose repeat is harmless, while their worker is being started again."""

import asyncio

from quiver.links.peers import Peers
from quiver.links.request import PeerRequest, R
from quiver.model.errors import WorkerUnavailable
from quiver.system.backoff import Backoff

_FIRST_PAUSE_SECONDS, _LONGEST_PAUSE_SECONDS = 0.02, 0.5
_ATTEMPTS = 20
"""With their pauses, about nine seconds."""


async def call_again(peers: Peers, worker: int, request: PeerRequest[R]) -> R:
    """WorkerUnavailable when the worker stays away."""
    backoff = Backoff(_FIRST_PAUSE_SECONDS, _LONGEST_PAUSE_SECONDS)
    for _ in range(_ATTEMPTS - 1):
        try:
            return (await peers.call(worker, request)).value
        except WorkerUnavailable:
            await asyncio.sleep(backoff.next_seconds())
    return (await peers.call(worker, request)).value
