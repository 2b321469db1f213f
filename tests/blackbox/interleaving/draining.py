"""The end of a run: waits until every group has nothing left to do."""

import time

from blackbox.callers.http_caller import HttpCaller
from blackbox.interleaving.final_state import depth, unsettled
from blackbox.interleaving.scenario import World

STANDSTILL_SECONDS = 60.0
"""Without any progress for this long, what is left is stuck."""


def drain(call: HttpCaller, world: World) -> list[str]:
    """Waits until every group has nothing left; says of those that make no progress any more how they stand."""
    deadline = time.monotonic() + STANDSTILL_SECONDS
    left = dict.fromkeys(world.groups, "unknown")
    while left and time.monotonic() < deadline:
        now = {group: rest for group in left if (rest := unsettled(call, group))}
        if now != left:
            deadline = time.monotonic() + STANDSTILL_SECONDS
        left = now
        world.rest(0.3)
    return [f"{group.name} is not drained: {depth(call, group)}" for group in left]
