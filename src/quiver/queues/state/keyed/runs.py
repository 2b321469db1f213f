"""Runs of dead messages with the same story as one. Pure."""

from collections.abc import Iterable

from quiver.queues.state.port import Dead


def merged_dead(dead: Iterable[Dead]) -> list[Dead]:
    """The same messages in offset order, neighbours with the same story as one."""
    found: list[Dead] = []
    for each in sorted(dead, key=lambda each: each.start):
        last = found[-1] if found else None
        if last is not None and last.end == each.start and _story(last) == _story(each):
            found[-1] = Dead(last.start, each.end, *_story(last))
        else:
            found.append(each)
    return found


def _story(dead: Dead) -> tuple[int, int, int, str, str]:
    return dead.level, dead.attempts, dead.first_delivered_ms, dead.reason, dead.error
