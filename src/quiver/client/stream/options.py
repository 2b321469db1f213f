"""How a member of a group reads."""

from collections.abc import Callable, Sequence
from typing import Any, TypedDict

import msgspec

from quiver.client.read.isolation import READ_COMMITTED, is_committed
from quiver.client.read.nearest import LEADER, is_nearest
from quiver.client.size_option import size_option
from quiver.model.errors import InvalidRequest
from quiver.model.limits import KIB, MIB, Limits
from quiver.model.names import check_name
from quiver.model.numbers import Size
from quiver.model.position import EARLIEST, Position, parse_position
from quiver.model.times import Duration, parse_duration_ms, parse_seconds

OnPartitions = Callable[[list[tuple[str, int]]], Any]
"""Called with topics and partitions; the asynchronous client awaits what it returns if it is awaitable."""


class StreamConfig(msgspec.Struct, frozen=True, kw_only=True):
    topics: list[str]
    pattern: str | None
    group: str
    client_id: str
    instance_id: str | None
    assignor: str | None
    start: Position
    auto_commit_seconds: float | None
    """None: only by `commit`."""
    session_ms: int
    heartbeat_ms: int
    max_bytes: int
    max_wait_ms: int
    read_committed: bool
    nearest: bool
    timeout_seconds: float | None
    """The longest wait for the next message."""
    on_assign: OnPartitions | None
    on_revoke: OnPartitions | None
    on_lost: OnPartitions | None
    limits: Limits = Limits()


class StreamOptions(TypedDict, total=False):
    """The options as users write them."""

    pattern: str | None
    client_id: str
    instance_id: str | None
    assignor: str | None
    start: Any
    auto_commit: bool | Duration
    session_timeout: Duration
    heartbeat: Duration
    max_bytes: Size
    max_wait: Duration
    isolation: str
    read_from: str
    timeout: Duration | None
    on_assign: OnPartitions | None
    on_revoke: OnPartitions | None
    on_lost: OnPartitions | None


def stream_config(
    topics: str | Sequence[str] | None,
    group: str,
    *,
    now_ms: int,
    pattern: str | None = None,
    client_id: str = "quiver-python",
    instance_id: str | None = None,
    assignor: str | None = None,
    start: Any = EARLIEST,
    auto_commit: bool | Duration = "5s",
    session_timeout: Duration = "30s",
    heartbeat: Duration = "3s",
    max_bytes: Size = 8 * MIB,
    max_wait: Duration = "500ms",
    isolation: str = READ_COMMITTED,
    read_from: str = LEADER,
    timeout: Duration | None = None,
    on_assign: OnPartitions | None = None,
    on_revoke: OnPartitions | None = None,
    on_lost: OnPartitions | None = None,
) -> StreamConfig:
    """Checks the options of a user."""
    names = [topics] if isinstance(topics, str) else list(topics or [])
    if not names and pattern is None:
        raise InvalidRequest(problem="a stream needs topics, or a pattern of topic names")
    if assignor not in (None, "sticky", "range", "roundrobin"):
        raise InvalidRequest(problem=f"assignor {assignor!r} is not one of sticky, range, roundrobin")
    if auto_commit is True:
        auto_commit = "5s"
    return StreamConfig(
        topics=[check_name(name) for name in names],
        pattern=pattern,
        group=check_name(group, "group"),
        client_id=client_id,
        instance_id=instance_id,
        assignor=assignor,
        start=parse_position(start, now_ms),
        auto_commit_seconds=None if auto_commit is False else parse_duration_ms(auto_commit, "auto_commit") / 1000,
        session_ms=parse_duration_ms(session_timeout, "session_timeout"),
        heartbeat_ms=parse_duration_ms(heartbeat, "heartbeat"),
        max_bytes=size_option("max_bytes", max_bytes, KIB, 64 * MIB),
        max_wait_ms=parse_duration_ms(max_wait, "max_wait"),
        read_committed=is_committed(isolation),
        nearest=is_nearest(read_from),
        timeout_seconds=None if timeout is None else parse_seconds(timeout),
        on_assign=on_assign,
        on_revoke=on_revoke,
        on_lost=on_lost,
    )
