"""Where a stream group may be that is reset."""

import math

from quiver.testing.simulation.history import Event, History


class Positions:
    """What members of the group have committed, and where somebody has set it: in `topic`, in all its partitions."""

    def __init__(self, history: History, topic: str) -> None:
        self._history = history
        self._topic = topic

    def possible(self, partition: str, since: float, until: float) -> set[int]:
        """At some moment of a span. What has no response may take effect at any time."""
        writes = [
            (event.began, event.ended if event.outcome == "ok" else math.inf, offset)
            for event in self._history.of("commit", "reset")
            if event.may_count and (offset := self._written(event, partition)) is not None
        ]
        writes.append((-1.0, -1.0, 0))
        replaced = max((began for began, ended, _ in writes if ended < since), default=-1.0)
        return {offset for began, ended, offset in writes if began <= until and ended >= replaced}

    def _written(self, event: Event, partition: str) -> int | None:
        """The offset that a commit or a reset gives the partition."""
        if event.what == "commit":
            return int(event.details["offset"]) + 1 if event.details["partition"] == partition else None
        return int(event.details["offset"]) if partition.rpartition("-")[0] == self._topic else None
