"""Times in a journal, adjusted to the present clock: no lease and no retry lasts longer than was asked for. Pure.

Times that were written while the clock was ahead of now are too late by as much. A lease of 30 seconds is to last 30
seconds, so they are set back by the difference.
"""

import msgspec

from quiver.queues.journal.events import Extended, GroupEvent, Leased, Returned

_OVER = 0
"""A time that was in the past when it was written stays in the past."""


class ReplayedTimes:
    def __init__(self, now_ms: int) -> None:
        self._now_ms = now_ms
        self.ahead_ms = 0
        """By how much the clock was ahead of now when what comes next was written."""
        self.most_ahead_ms = 0

    def written_at(self, time_ms: int) -> None:
        self.ahead_ms = max(0, time_ms - self._now_ms)
        self.most_ahead_ms = max(self.most_ahead_ms, self.ahead_ms)

    def bounded(self, event: GroupEvent) -> GroupEvent:
        if not self.ahead_ms:
            return event
        match event:
            case Leased() | Extended():
                return msgspec.structs.replace(event, deadline_ms=brought_back(event.deadline_ms, self.ahead_ms))
            case Returned():
                runs = [msgspec.structs.replace(r, due_ms=brought_back(r.due_ms, self.ahead_ms)) for r in event.runs]
                return msgspec.structs.replace(event, runs=runs)
        return event


def brought_back(time_ms: int, ahead_ms: int) -> int:
    return max(_OVER + 1, time_ms - ahead_ms) if time_ms > _OVER else time_ms
