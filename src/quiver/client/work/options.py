"""How a consumer of a queue group works."""

from collections.abc import Sequence
from typing import Any, TypedDict, get_args

import msgspec

from quiver.client.size_option import size_option
from quiver.model.errors import InvalidRequest
from quiver.model.limits import MIB, Limits
from quiver.model.names import check_name
from quiver.model.numbers import Size
from quiver.model.position import Position, parse_position
from quiver.model.priority import Priority, PriorityLevel, parse_priority
from quiver.model.queue import Ordering
from quiver.model.times import Duration, parse_duration_ms, parse_seconds

MOST_PER_RECEIVE = 10_000
_MOST_PREFETCHED = 100_000


class WorkConfig(msgspec.Struct, frozen=True, kw_only=True):
    topics: list[str]
    group: str
    ordering: Ordering | None
    """None: the group's ordering."""
    max_messages: int
    """Per batch."""
    visibility_ms: int | None
    """None: the group's visibility."""
    priority: Priority | None
    """Only this priority."""
    consumer: str
    prefetch: int | None
    """None: as many as are processed in about a second."""
    start: Position | None
    max_bytes: int
    timeout_seconds: float | None = None
    """The longest wait for the next job."""
    concurrency: int = 1
    """Jobs that are processed at a time."""
    limits: Limits = Limits()


class WorkOptions(TypedDict, total=False):
    """The options as users write them."""

    ordering: Ordering | None
    max_messages: int
    visibility: Duration | None
    priority: PriorityLevel | None
    consumer: str | None
    prefetch: int | None
    start: Any
    max_bytes: Size


def work_config(
    topics: str | Sequence[str],
    group: str,
    *,
    now_ms: int,
    name: str,
    concurrency: int = 1,
    ordering: Ordering | None = None,
    max_messages: int = 100,
    visibility: Duration | None = None,
    priority: PriorityLevel | None = None,
    consumer: str | None = None,
    prefetch: int | None = None,
    start: Any = None,
    max_bytes: Size = 8 * MIB,
    timeout: Duration | None = None,
) -> WorkConfig:
    """Checks the options of a user. `name` is the consumer's where the user gives none."""
    names = [topics] if isinstance(topics, str) else list(topics)
    if not names:
        raise InvalidRequest(problem="work needs at least one topic")
    if ordering not in (None, *get_args(Ordering)):
        raise InvalidRequest(problem=f"ordering {ordering!r} is not one of {', '.join(get_args(Ordering))}")
    visibility_ms = None if visibility is None else parse_duration_ms(visibility, "visibility")
    if visibility_ms == 0:
        raise InvalidRequest(problem="visibility must be greater than zero")
    return WorkConfig(
        topics=[check_name(topic) for topic in names],
        group=check_name(group, "group"),
        ordering=ordering,
        max_messages=_between(max_messages, 1, MOST_PER_RECEIVE, "max_messages"),
        visibility_ms=visibility_ms,
        priority=None if priority is None else parse_priority(priority),
        consumer=consumer or name,
        prefetch=None if prefetch is None else _between(prefetch, 0, _MOST_PREFETCHED, "prefetch"),
        start=None if start is None else parse_position(start, now_ms),
        max_bytes=size_option("max_bytes", max_bytes, 1, Limits().fetch_bytes),
        timeout_seconds=None if timeout is None else parse_seconds(timeout),
        concurrency=_between(concurrency, 1, 10_000, "concurrency"),
    )


def _between(value: int, low: int, high: int, what: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
        raise InvalidRequest(problem=f"{what} {value!r} is not a whole number from {low} to {high}")
    return value
