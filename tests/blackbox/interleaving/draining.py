"""The end of a run: waits until every group has nothing left to do."""

import time

from blackbox.callers.http_caller import HttpCaller
from blackbox.interleaving.final_state import depth, unsettled
from blackbox.interleaving.scenario import World

STANDSTILL_SECONDS = 60.0
"""Without any progress for this long, what is left is stuck."""
DELAYED_SECONDS = 4.0
"""Messages that were delayed may come so long after the last publish, also to groups that had nothing left."""


def drain(call: HttpCaller, world: World) -> list[str]:
    """Waits until every group has nothing left; says of those that make no progress any more how they stand."""
    all_came_at = time.monotonic() + DELAYED_SECONDS
    deadline = time.monotonic() + STANDSTILL_SECONDS
    left = dict.fromkeys(world.groups, "unknown")
    while time.monotonic() < deadline:
        is_last = time.monotonic() > all_came_at
        now = {group: rest for group in world.groups if (rest := unsettled(call, group))}
        if is_last and not now:
            return []
        if now != left:
            deadline = time.monotonic() + STANDSTILL_SECONDS
        left = now
        world.rest(0.3)
    return [f"{group.name} is not drained: {depth(call, group)}" for group in left]
