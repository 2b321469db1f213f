"""Checks of the work that is left: groups that lag or have nobody, dead letters that become more."""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from quiver.cli.doctor.finding import Finding, ok, shortened, warning
from quiver.model.times import format_duration

MAX_LAG_MS = 5 * 60_000
_SHOWN = 20


class GroupWork(NamedTuple):
    """What a group has left to do."""

    name: str
    kind: str
    members: int
    lag: int
    lag_ms: int
    """The age of the oldest message that is not committed."""
    leased: int


class DeadLetterCount(NamedTuple):
    topic: str
    waiting: int
    in_last_hour: int


def check_groups(groups: Iterable[GroupWork]) -> Iterator[Finding]:
    found, count = [], 0
    for group in groups:
        count += 1
        old = f", the oldest {format_duration(group.lag_ms // 1000 * 1000)} old" if group.lag_ms >= 1000 else ""
        left = f"{group.lag:,} {'message is' if group.lag == 1 else 'messages are'} left{old}"
        if group.lag and not group.members and not group.leased:
            advice = f"start its consumers, or remove the group if nobody needs it: quiver group delete {group.name}"
            found.append(warning("groups", f"{group.name} has no members, and {left}", advice))
        elif group.lag and group.lag_ms > MAX_LAG_MS:
            advice = (
                f"quiver group describe {group.name} shows where; add members (at most one for each partition of a "
                "stream group), or make the work faster"
            )
            found.append(warning("groups", f"{group.name} lags: {left}", advice))
    yield from shortened(found, _SHOWN) or [ok("groups", f"{count} groups, none is left alone with work or lags")]


def check_dead_letters(counts: Iterable[DeadLetterCount]) -> Iterator[Finding]:
    waiting, found = 0, []
    for count in counts:
        waiting += count.waiting
        if count.in_last_hour:
            message = f"{count.topic}: {count.in_last_hour:,} came in the last hour, {count.waiting:,} wait"
            look, redrive = f"quiver dlq list {count.topic} --newest", f"quiver dlq redrive {count.topic}"
            advice = f"{look} shows why; fix the cause, then send them back: {redrive}"
            found.append(warning("dead letters", message, advice))
    shown = f"{waiting:,} wait, none came in the last hour" if waiting else "there are none"
    yield from shortened(found, _SHOWN) or [ok("dead letters", shown)]
