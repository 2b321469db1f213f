"""Counters of several processes that are replaced: what those before had counted stays in the sum. Pure."""

from collections.abc import Mapping

import msgspec

from quiver.metrics.series import ALL
from quiver.telemetry.exposition import Collected

_COUNTERS = [series for series in ALL if series.kind in ("counter", "histogram")]


class CountedBefore(msgspec.Struct, array_like=True):
    """The counters of one worker's place."""

    start_epoch: int
    last: Collected
    """What the worker with this start epoch had counted when it was last asked."""
    before: Collected
    """What those before it had counted."""


Places = dict[int, CountedBefore]


def added_up(places: Places, numbers: Mapping[int, tuple[int, Collected]]) -> Collected:
    """The numbers of all workers, given those that have responded with their start epochs. Changes `places`."""
    total = Collected()
    for worker, (start_epoch, collected) in numbers.items():
        total.merge(collected, ALL)
        _note(places, worker, start_epoch, collected)
    for worker, place in places.items():
        total.merge(place.before, _COUNTERS)
        if worker not in numbers:
            total.merge(place.last, _COUNTERS)
    return total


def _note(places: Places, worker: int, start_epoch: int, collected: Collected) -> None:
    counters = Collected()
    counters.merge(collected, _COUNTERS)
    place = places.get(worker)
    if place is None:
        places[worker] = CountedBefore(start_epoch, counters, Collected())
    elif place.start_epoch <= start_epoch:
        if place.start_epoch < start_epoch:
            place.before.merge(place.last, _COUNTERS)
        place.start_epoch, place.last = start_epoch, counters
