"""Calls whose repeat is harmless, while their worker is being started again."""

import asyncio

from quiver.links.peers import Peers
from quiver.links.request import PeerRequest, R
from quiver.model.errors import WorkerUnavailable
from quiver.system.backoff import Backoff

_FIRST_PAUSE_SECONDS, _LONGEST_PAUSE_SECONDS = 0.02, 0.5
_AWAY_SECONDS = 9.0


async def call_again(peers: Peers, worker: int, request: PeerRequest[R], *, away_seconds: float = _AWAY_SECONDS) -> R:
    """If the worker dies, its successor is asked. WorkerUnavailable when it stays away, and at once when all workers
    are being stopped: then nobody follows.
    """
    loop = asyncio.get_running_loop()
    backoff, end = Backoff(_FIRST_PAUSE_SECONDS, _LONGEST_PAUSE_SECONDS), loop.time() + away_seconds
    while True:
        try:
            return (await peers.call(worker, request)).value
        except WorkerUnavailable:
            pause = backoff.next_seconds()
            if peers.is_ending or loop.time() + pause > end:
                raise
        await asyncio.sleep(pause)
