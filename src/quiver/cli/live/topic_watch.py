"""`quiver topic watch`: one line per second about one topic and the groups that read it."""

import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from itertools import count as counted
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from quiver.cli.formats.output import Output, human_bytes, show_document
from quiver.model.errors import GroupNotFound
from quiver.model.times import format_duration, format_time
from quiver.system.clock import Clock, SystemClock

if TYPE_CHECKING:
    from quiver.client import Client

_EVERY_SECONDS = 1.0
_LIST_SECONDS = 5.0
"""How often it looks for new groups."""
_WIDTHS = (12, 10, 14, 10)
HEADS = ("PUBLISHED/S", "BYTES/S", "MESSAGES", "SIZE")


def watch_topic(q: "Client", topic: str, count: int | None, output: Output) -> None:
    """Prints a line per second, `count` times or until it is interrupted. Raises TopicNotFound once it is gone."""
    clock = SystemClock()
    watch = TopicWatch(q, topic, clock)
    before = watch.look()
    if output is Output.TABLE:
        print(head_line(), flush=True)
    due = clock.monotonic()
    for _ in counted() if count is None else range(count):
        due = max(due + _EVERY_SECONDS, clock.monotonic())
        time.sleep(max(0.0, due - clock.monotonic()))
        after = watch.look()
        _print(difference(before, after), output)
        before = after


def _print(line: dict[str, Any], output: Output) -> None:
    if output is Output.TABLE:
        print(text_line(line), flush=True)
    elif output is Output.JSON:
        print(msgspec.json.encode(line).decode(), flush=True)
    else:
        show_document([line], output)


class GroupLook(NamedTuple):
    members: int
    lag: int
    lag_ms: int
    position: int
    """The sum of the positions in all partitions: it rises with what is done."""


class TopicLook(NamedTuple):
    at: float
    time_ms: int
    end: int
    """The sum of the ends of all partitions."""
    messages: int
    size_bytes: int
    groups: Mapping[str, GroupLook]


class TopicWatch:
    def __init__(self, q: "Client", topic: str, clock: Clock) -> None:
        self._q = q
        self._topic = topic
        self._clock = clock
        self._names: list[str] = []
        self._listed_at = -_LIST_SECONDS

    def look(self) -> TopicLook:
        """Raises TopicNotFound when the topic is gone."""
        found = self._q.topics.describe(self._topic)
        groups = dict(self._groups())
        end = sum(latest for _, latest in found.offsets)
        return TopicLook(
            self._clock.monotonic(), self._clock.now_ms(), end, found.message_count, found.size_bytes, groups
        )

    def _groups(self) -> Iterator[tuple[str, GroupLook]]:
        now = self._clock.monotonic()
        if now - self._listed_at >= _LIST_SECONDS:
            self._listed_at = now
            self._names = sorted(group.id for group in self._q.groups.list() if self._topic in group.topics)
        for name in self._names:
            with suppress(GroupNotFound):  # deleted since it was listed
                group = self._q.groups.describe(name)
                parts = [part for part in group.partitions if part.topic == self._topic]
                lag_ms = max((part.lag_ms for part in parts), default=0)
                position = sum(part.committed or 0 for part in parts)
                yield name, GroupLook(len(group.members), sum(part.lag for part in parts), lag_ms, position)


def difference(before: TopicLook, after: TopicLook) -> dict[str, Any]:
    """What happened between two looks. A topic that was created again, or a reset group, makes no rate negative."""
    seconds = max(0.001, after.at - before.at)
    published = max(0, after.end - before.end)
    grown = max(0, after.size_bytes - before.size_bytes)
    return {
        "time": format_time(after.time_ms),
        "seconds": round(seconds, 3),
        "published": published,
        "published_per_second": round(published / seconds, 3),
        "bytes_per_second": round(grown / seconds, 3),
        "messages": after.messages,
        "size_bytes": after.size_bytes,
        "groups": [_group(name, before.groups.get(name), group, seconds) for name, group in after.groups.items()],
    }


def _group(name: str, before: GroupLook | None, after: GroupLook, seconds: float) -> dict[str, Any]:
    done = 0 if before is None else max(0, after.position - before.position)
    return {
        "group": name,
        "members": after.members,
        "done_per_second": round(done / seconds, 3),
        "lag": after.lag,
        "lag_seconds": after.lag_ms / 1000,
    }


def head_line() -> str:
    cells = [head.rjust(width) for head, width in zip(HEADS, _WIDTHS, strict=True)]
    return "  ".join(["TIME    ", *cells, "GROUPS"])


def text_line(line: Mapping[str, Any]) -> str:
    values = (
        f"{line['published_per_second']:,.0f}",
        human_bytes(int(line["bytes_per_second"])),
        f"{line['messages']:,}",
        human_bytes(line["size_bytes"]),
    )
    cells = [value.rjust(width) for value, width in zip(values, _WIDTHS, strict=True)]
    groups = ", ".join(map(_group_text, line["groups"])) or "-"
    return "  ".join([line["time"][11:19], *cells, groups])


def _group_text(group: Mapping[str, Any]) -> str:
    age = f" ({format_duration(int(group['lag_seconds']) * 1000)})" if group["lag_seconds"] >= 1 else ""
    return f"{group['group']} {group['done_per_second']:,.0f}/s lag {group['lag']:,}{age}"
