"""Queue messages that a transaction acks. Pure."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

from quiver.client.work.held_run import LeaseKey
from quiver.client.work.settlement import Span
from quiver.model.transaction import LeasedAcks

ABORTED = "its transaction was aborted"
"""The last error of messages whose consumer left them to a transaction that was aborted."""


class Enlisted(NamedTuple):
    """Jobs that are settled with their transaction, and cannot be settled otherwise meanwhile."""

    spans: Sequence[Span]
    on_end: Callable[[bool], Any]
    """Called once, with whether the transaction was committed. If not, the jobs are open again."""


def leased_acks(enlisted: Iterable[Enlisted]) -> list[LeasedAcks]:
    """The part of a commit request about them: one part per lease, with as few runs as possible."""
    runs: dict[LeaseKey, list[tuple[int, int]]] = {}
    for each in enlisted:
        for run, start, end in each.spans:
            runs.setdefault(run.lease, []).append((start, end))
    return [LeasedAcks(*lease, _joined(found)) for lease, found in runs.items()]


def _joined(runs: list[tuple[int, int]]) -> list[tuple[int, int]]:
    joined: list[tuple[int, int]] = []
    for start, end in sorted(runs):
        if joined and joined[-1][1] == start:
            joined[-1] = (joined[-1][0], end)
        else:
            joined.append((start, end))
    return joined
