"""Settling everything below an offset, a slice at a time."""

import asyncio

from quiver.queues.partition.queue_group import QueueGroup

_AT_ONCE = 5_000


async def settle_below(group: QueueGroup, offset: int) -> int:
    """Returns how many messages that were unsettled are gone. Others get their turns if there are very many."""
    gone = 0
    while sum(group.state.counts()[:3]) > _AT_ONCE and (low := group.state.lowest_unsettled()) + _AT_ONCE < offset:
        gone += group.state.settle_below(low + _AT_ONCE)
        await asyncio.sleep(0)
    return gone + group.state.settle_below(offset)
