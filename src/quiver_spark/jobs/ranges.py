"""What a job works on, as it is stored in the record of a run: ranges of offsets, and times."""

from typing import NamedTuple


class Range(NamedTuple):
    """Offsets of one partition, from `start` to below `stop`."""

    topic: str
    partition: int
    start: int
    stop: int
    topic_id: int = 0
    """0: not known. A topic that was deleted and created again under its name has another id."""


class Times(NamedTuple):
    """The append times of messages, from `start_ms` to before `stop_ms`; None is unbounded."""

    start_ms: int | None = None
    stop_ms: int | None = None
