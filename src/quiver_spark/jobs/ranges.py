"""What jobs work on, as it is stored with a run: ranges of offsets, and times."""

from typing import NamedTuple


class Range(NamedTuple):
    """Offsets of one partition, from `start` to below `stop`."""

    topic: str
    partition: int
    start: int
    stop: int
    topic_id: int = 0
    """0: not known. Topics that had the same name one after the other differ by it."""


class Times(NamedTuple):
    """From when to before when the broker stored messages, epoch milliseconds; None is open."""

    start_ms: int | None = None
    stop_ms: int | None = None
