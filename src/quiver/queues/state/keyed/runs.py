"""Runs of offsets, as calls and events name them. Pure."""

from collections.abc import Iterable

from quiver.queues.state.port import Dead, Run


def merged(runs: Iterable[Run]) -> list[Run]:
    """The same offsets in order, in as few runs as can be; empty ones are left out."""
    found: list[Run] = []
    for start, end in sorted(runs):
        if start >= end:
            continue
        if found and start <= found[-1][1]:
            found[-1] = (found[-1][0], max(end, found[-1][1]))
        else:
            found.append((start, end))
    return found


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
