"""The leases of a consumer, and when they must be renewed. Pure but for a mutex."""

import math
import threading
from collections.abc import Iterable

from quiver.client.work.held_run import HeldRun
from quiver.client.work.settlement import Decision, Part, Span
from quiver.model.settlement import EXTEND

_EARLY = 0.25
"""Leases whose renewal is due within this part of the interval are renewed together with others."""


class Leases:
    """Shared by the receiver, the settler and the background loop."""

    def __init__(self) -> None:
        self._mutex = threading.Lock()
        self._runs: dict[HeldRun, None] = {}
        self._renew_at = math.inf

    def after_fork(self) -> None:
        """Another thread of the parent may have held it."""
        self._mutex = threading.Lock()

    def __len__(self) -> int:
        return len(self._runs)

    @property
    def renew_at(self) -> float:
        """When the next lease must be renewed."""
        return self._renew_at

    def open_count(self, topic_id: int) -> int:
        """Messages of a topic that are neither settled nor lost."""
        with self._mutex:
            return sum(run.open_count for run in self._runs if run.lease[0] == topic_id)

    def add(self, runs: Iterable[HeldRun]) -> None:
        with self._mutex:
            for run in runs:
                self._runs[run] = None
                self._renew_at = min(self._renew_at, run.renew_at)

    def close(self, spans: Iterable[Span]) -> None:
        """Messages that need no renewal any more."""
        with self._mutex:
            for run, start, end in spans:
                run.close(start, end)
                if run.is_closed:
                    self._runs.pop(run, None)

    def drop(self, run: HeldRun) -> None:
        """A run that cannot be processed: its lease is left to expire."""
        with self._mutex:
            self._runs.pop(run, None)

    def reopen(self, span: Span) -> None:
        """Messages whose settlement was refused although the lease still holds."""
        run, start, end = span
        with self._mutex:
            run.reopen(start, end)
            self._runs[run] = None
            self._renew_at = min(self._renew_at, run.renew_at)

    def lose(self, span: Span) -> None:
        run, start, end = span
        with self._mutex:
            run.lose(start, end)
            if run.is_closed:
                self._runs.pop(run, None)

    def due(self, now: float) -> list[Part]:
        """What must be renewed now, as parts of a request."""
        if now < self._renew_at:
            return []
        with self._mutex:
            chosen = [run for run in self._runs if run.renew_at - _early_seconds(run) <= now]
            parts = [part for run in chosen if (part := _renewal(run, now)) is not None]
            for run in chosen:
                run.renew_later(now)
            self._renew_at = min((run.renew_at for run in self._runs), default=math.inf)
        return parts

    def renewed(self, part: Part, now: float) -> None:
        with self._mutex:
            for run, _, _, _ in part.spans:
                run.renewed(now)

    def renew_again(self, part: Part, at: float) -> None:
        """The renewal was not delivered."""
        with self._mutex:
            for run, _, _, _ in part.spans:
                run.renew_at = min(run.renew_at, at)
            self._renew_at = min(self._renew_at, at)

    def make_due(self) -> None:
        """Renews all leases immediately: it is not known whether they still hold."""
        with self._mutex:
            for run in self._runs:
                run.renew_at = 0.0
            self._renew_at = 0.0 if self._runs else math.inf


def _early_seconds(run: HeldRun) -> float:
    return run.visibility_ms / 3000 * _EARLY


def _renewal(run: HeldRun, now: float) -> Part | None:
    ranges = run.renewable_ranges(now)
    if not ranges:
        return None
    part = Part(Decision(EXTEND, (), delay_ms=run.visibility_ms), is_renewal=True)
    for start, end in ranges:
        part.add((run, start, end), None)
    return part
