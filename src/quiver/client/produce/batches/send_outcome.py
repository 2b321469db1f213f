"""The outcome of messages: where each row of a set was stored, or why it failed."""

import copy
import threading
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from quiver.client.connection.fork import current_pid
from quiver.client.produce.batches.batch import Batch
from quiver.client.produce.batches.watchers import Watchers
from quiver.client.produce.published import (
    Published,
    PublishedBefore,
    PublishedBuffered,
    PublishedLater,
    ScheduledBefore,
    Span,
    SpanBefore,
    SpanBuffered,
    SpanLater,
    SpanScheduledBefore,
)
from quiver.client.produce.rows import Indices
from quiver.model.errors import QuiverError


class Piece(NamedTuple):
    """Rows of a batch, from `start` to below `stop`."""

    batch: Batch
    start: int
    stop: int

    @property
    def is_settled(self) -> bool:
        if self.batch.placement is None:
            return self.batch.is_settled
        return all(leaf.batch.is_settled for leaf in self.leaves())

    def leaves(self) -> "Iterator[Piece]":
        """Where the rows are now: a batch may have been routed again."""
        if self.batch.placement is None:
            yield self
            return
        for piece in self.batch.placement.pieces(self.start, self.stop):
            yield from piece.leaves()


class Placement:
    """How rows were put into batches: row `order[n]` is the n-th of the batches laid end to end."""

    __slots__ = ("_places", "batches", "order", "starts")

    def __init__(self, batches: Sequence[Batch], order: Indices | None = None) -> None:
        self.batches = batches
        self.order = order
        self.starts = [0]
        for batch in batches:
            self.starts.append(self.starts[-1] + batch.count)
        self._places: Indices | None = None

    def locate(self, row: int) -> tuple[Batch, int]:
        """The batch a row is in now, and its place there."""
        if self.order is not None:
            if self._places is None:
                places = np.empty(len(self.order), np.int64)
                places[self.order] = np.arange(len(self.order))
                self._places = places
            row = int(self._places[row])
        number = bisect_right(self.starts, row) - 1
        batch, place = self.batches[number], row - self.starts[number]
        return (batch, place) if batch.placement is None else batch.placement.locate(place)

    def pieces(self, start: int, stop: int) -> Iterator[Piece]:
        """Where the rows from `start` to below `stop` are, as they were first put into batches."""
        is_all = start == 0 and stop == self.starts[-1]
        for batch, first in zip(self.batches, self.starts, strict=False):
            if is_all:
                low, high = 0, batch.count
            elif self.order is None:
                low, high = max(start - first, 0), min(stop - first, batch.count)
            else:  # rows of a batch are in the order they came in
                found = self.order[first : first + batch.count].searchsorted((start, stop))
                low, high = int(found[0]), int(found[1])
            if low < high:
                yield Piece(batch, low, high)


class PlacedRows(NamedTuple):
    """Rows from `start` to below `stop` of a placement, which may have rows of others too."""

    placement: Placement
    start: int
    stop: int

    def locate(self, row: int) -> tuple[Batch, int]:
        return self.placement.locate(self.start + row)


class SendOutcome:
    """The outcome of a set of messages, shared by its futures."""

    __slots__ = (
        "_first_open",
        "_pieces",
        "_placed_count",
        "count",
        "error",
        "error_seen",
        "is_complete",
        "pid",
        "placements",
        "topic",
        "watchers",
    )

    def __init__(self, topic: str) -> None:
        self.topic = topic
        self.placements: list[PlacedRows] = []
        self.error: QuiverError | None = None
        """Why messages never got into a batch."""
        self.error_seen = False
        self.is_complete = False
        """No further messages will come."""
        self.count = 0
        """Messages that came as a whole."""
        self._placed_count = 0
        self._pieces: list[Piece] | None = None
        """The number of all messages, once they are placed."""
        self._first_open = 0
        """The pieces before this one are settled."""
        self.pid = current_pid()
        """The process that sent them: a forked child never gets their outcome."""
        self.watchers = Watchers()

    def place(self, placement: Placement, start: int, stop: int) -> None:
        self.placements.append(PlacedRows(placement, start, stop))
        self._placed_count += stop - start

    def fail(self, error: QuiverError, count: int) -> None:
        """Some messages were not placed."""
        self.error = error
        self._placed_count += count
        self.is_complete = True
        self.watchers.changed()

    def is_known(self, row: int) -> bool:
        """Whether `outcome` is known."""
        if not self.placements:
            return self.error is not None
        return self.placements[0].locate(row)[0].is_settled

    def result_of(self, row: int) -> Published | QuiverError | None:
        """The place of a message, the error, or None while neither is known."""
        if not self.placements:
            self.error_seen = True
            return self.error
        return result_in(self.topic, *self.placements[0].locate(row))

    @property
    def is_settled(self) -> bool:
        """Whether everything has an outcome."""
        if not self.is_complete or self._placed_count < self.count:
            return False
        if self._pieces is None:
            self._pieces = list(self._all_pieces())
        pieces, number = self._pieces, self._first_open
        while number < len(pieces) and pieces[number].is_settled:
            number += 1
        self._first_open = number
        return number == len(pieces)

    def spans(self) -> list[Span] | QuiverError:
        """Where everything went, or the first error; for a settled outcome."""
        found: list[Span] = []
        error = self.error
        self.error_seen = True
        for piece in self._all_pieces():
            for batch, start, stop in piece.leaves():
                if batch.error is not None:
                    batch.error_seen = True
                    error = error or batch.error
                elif batch.base_offset is not None:
                    found += _spans(self.topic, batch, start, stop, batch.base_offset)
        return found if error is None else error

    def when_known(self, is_known: Callable[[], bool], then: Callable[[], object]) -> None:
        """Calls `then` once, as soon as `is_known` holds: now, or at a later change."""
        once = threading.Lock()

        def look() -> None:
            if not is_known():
                self.watchers.add(look)
                if not is_known():
                    return
            if once.acquire(blocking=False):
                then()

        look()

    def _all_pieces(self) -> Iterator[Piece]:
        for placement, start, stop in self.placements:
            yield from placement.pieces(start, stop)


def result_in(topic: str, batch: Batch, place: int) -> Published | QuiverError | None:
    """What became of a message at a place of a batch; None while that is open."""
    if batch.error is not None:
        batch.error_seen = True
        return batch.error
    if batch.base_offset is None:
        return None
    if place in batch.duplicates:
        offset, is_delayed = batch.duplicates[place]
        return (ScheduledBefore if is_delayed else PublishedBefore)(topic, batch.partition, offset)
    place -= bisect_left(batch.duplicate_rows, place)
    offset = batch.base_offset + place if batch.base_offset >= 0 else -1
    kind = PublishedLater if batch.route.delayed else PublishedBuffered if batch.is_buffered else Published
    return kind(topic, batch.partition, offset)


def _spans(topic: str, batch: Batch, first: int, end: int, base_offset: int) -> Iterator[Span]:
    """Spans of the rows from `first` to below `end`, in order; repeats have spans of their own."""
    kind: type[Span] = SpanLater if batch.route.delayed else SpanBuffered if batch.is_buffered else Span
    if base_offset >= 0:  # it is not known with acks `none`
        base_offset += first - bisect_left(batch.duplicate_rows, first)
    if not batch.duplicates:
        yield kind(topic, batch.partition, base_offset, end - first)
        return
    places: list[tuple[type[Span], int]] = []
    for row in range(first, end):
        if row in batch.duplicates:
            offset, is_delayed = batch.duplicates[row]
            places.append((SpanScheduledBefore if is_delayed else SpanBefore, offset))
        else:
            places.append((kind, base_offset))
            base_offset += 1
    start = 0
    for end in range(1, len(places) + 1):
        first_kind, first = places[start]
        if end == len(places) or places[end] != (first_kind, first + end - start):
            yield first_kind(topic, batch.partition, first, end - start)
            start = end


def fresh(error: QuiverError) -> QuiverError:
    """A copy to raise, so that futures that share an error do not share a traceback."""
    return copy.copy(error)
