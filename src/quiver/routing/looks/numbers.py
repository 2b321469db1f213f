"""Metrics of all workers, added up.

No counter falls when a worker is replaced: what those before it had counted when they were last asked stays in the
sum.
"""

import asyncio
from collections.abc import Callable
from typing import Protocol

import msgspec

from quiver.broker.broker import Broker
from quiver.metrics.series import ALL
from quiver.routing.looks.handlers import own_numbers
from quiver.routing.looks.requests import CollectNumbers
from quiver.routing.scatter import Scatter
from quiver.telemetry.exposition import Collected

_COUNTERS = [series for series in ALL if series.kind in ("counter", "histogram")]


class SharedNote(Protocol):
    """Bytes that all workers share, and that outlive each of them."""

    def update(self, change: Callable[[bytes], bytes]) -> None:
        """Replaces the bytes, one worker at a time. May take a while."""


class OwnNote:
    """Of one worker alone."""

    def __init__(self) -> None:
        self._note = b""

    def update(self, change: Callable[[bytes], bytes]) -> None:
        self._note = change(self._note)


class CountedBefore(msgspec.Struct, array_like=True):
    """The counters of one worker's place."""

    start_epoch: int
    last: Collected
    """What the worker with this start epoch had counted when it was last asked."""
    before: Collected
    """What those before it had counted."""


class RoutedMetrics:
    def __init__(self, local: Broker, scatter: Scatter, note: SharedNote) -> None:
        self._local, self._scatter, self._note = local, scatter, note

    async def collect(self) -> Collected:
        look = await self._scatter.look(CollectNumbers(), lambda: own_numbers(self._local))
        return await asyncio.to_thread(self._added_up, look.answers)

    async def text_of(self, collected: Collected, *, open_metrics: bool) -> bytes:
        return await self._local.metrics.text_of(collected, open_metrics=open_metrics)

    def _added_up(self, answers: dict[int, tuple[int, Collected]]) -> Collected:
        total = Collected()
        for _, numbers in answers.values():
            total.merge(numbers, ALL)

        def remember(note: bytes) -> bytes:
            places = _decoder.decode(note) if note else {}
            for worker, (start_epoch, numbers) in answers.items():
                note_counters(places, worker, start_epoch, numbers)
            for worker, place in places.items():
                total.merge(place.before, _COUNTERS)
                if worker not in answers:
                    total.merge(place.last, _COUNTERS)
            return msgspec.msgpack.encode(places)

        self._note.update(remember)
        return total


_decoder = msgspec.msgpack.Decoder(dict[int, CountedBefore])


def note_counters(places: dict[int, CountedBefore], worker: int, start_epoch: int, numbers: Collected) -> None:
    counters = Collected()
    counters.merge(numbers, _COUNTERS)
    place = places.get(worker)
    if place is None:
        places[worker] = CountedBefore(start_epoch, counters, Collected())
        return
    if place.start_epoch < start_epoch:
        place.before.merge(place.last, _COUNTERS)
    if place.start_epoch <= start_epoch:
        place.start_epoch, place.last = start_epoch, counters
