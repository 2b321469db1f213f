"""Joins runs of dead messages that have the same history. Pure."""

from collections.abc import Iterable

from quiver.queues.state.port import Dead


def merged_dead(dead: Iterable[Dead]) -> list[Dead]:
    """The same messages in offset order; adjacent runs with the same history become one."""
    found: list[Dead] = []
    for each in sorted(dead, key=lambda each: each.start):
        last = found[-1] if found else None
        if last is not None and last.end == each.start and _history(last) == _history(each):
            found[-1] = Dead(last.start, each.end, *_history(last))
        else:
            found.append(each)
    return found


def _history(dead: Dead) -> tuple[int, int, int, str, str]:
    return dead.level, dead.attempts, dead.first_delivered_ms, dead.reason, dead.error
