"""Metrics of all workers, added up.

No counter falls when a worker is replaced: what those before it had counted when they were last asked stays in the
sum.
"""

import asyncio
from collections.abc import Callable
from typing import Protocol

import msgspec

from quiver.broker.broker import Broker
from quiver.metrics.counted_before import Places, added_up
from quiver.routing.looks.handlers import own_numbers
from quiver.routing.looks.requests import CollectNumbers
from quiver.routing.scatter import Scatter
from quiver.telemetry.exposition import Collected


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


class RoutedMetrics:
    def __init__(self, local: Broker, scatter: Scatter, note: SharedNote) -> None:
        self._local, self._scatter, self._note = local, scatter, note

    async def collect(self) -> Collected:
        look = await self._scatter.look(CollectNumbers(), lambda: own_numbers(self._local), only_here=True)
        return await asyncio.to_thread(self._added_up, look.answers)

    async def text_of(self, collected: Collected, *, open_metrics: bool) -> bytes:
        return await self._local.metrics.text_of(collected, open_metrics=open_metrics)

    def _added_up(self, answers: dict[int, tuple[int, Collected]]) -> Collected:
        total = Collected()

        def change(note: bytes) -> bytes:
            nonlocal total
            places: Places = _decoder.decode(note) if note else {}
            total = added_up(places, answers)
            return msgspec.msgpack.encode(places)

        self._note.update(change)
        return total


_decoder = msgspec.msgpack.Decoder(Places)
