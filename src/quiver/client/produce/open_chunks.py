"""The chunks that a producer fills, and the rows that are ready to be sent. Pure but for a mutex."""

import threading
from collections import deque
from typing import Any, NamedTuple

from quiver.client.produce.batches.unsettled import Unsettled
from quiver.client.produce.chunk import (
    SEALED_CHUNK,
    SMALL_KEY_BYTES,
    SMALL_VALUE_BYTES,
    BulkRows,
    Chunk,
    Outgoing,
    PendingRows,
)
from quiver.client.produce.options import BatchLimits, ProducerConfig
from quiver.client.produce.route import PLAIN_ROUTE, Route
from quiver.model.errors import Closed
from quiver.structures.ordered_set import OrderedSet
from quiver.system.clock import Clock


class OwnChunk(threading.local):
    """A sealed, empty chunk until the thread has one of its own."""

    chunk: Any = SEALED_CHUNK


class Added(NamedTuple):
    """The position of a message."""

    chunk: Chunk
    row: int
    is_first: bool
    is_full: bool
    """Adding it sealed the chunk."""


class OpenChunks:
    def __init__(self, topic: str, config: ProducerConfig, unsettled: Unsettled, clock: Clock) -> None:
        self.own = OwnChunk()
        """The calling thread's chunk, for messages without options."""
        self.ready: deque[PendingRows] = deque()
        """In the order in which chunks were sealed."""
        self.is_closed = False
        self.flushing = 0
        """How many callers wait for everything to be sent; then nothing lingers."""
        self._topic = topic
        self._config = config
        self._unsettled = unsettled
        self._clock = clock
        self._mutex = threading.Lock()
        self._routes: dict[Route, Chunk] = {}
        """Chunks of all threads for messages with their own priority or partition."""
        self._open: OrderedSet[Chunk] = OrderedSet()
        """Every chunk that has messages and is not sealed."""

    @property
    def has_open(self) -> bool:
        return bool(self._open)

    @property
    def is_urgent(self) -> bool:
        return bool(self.flushing) or self.is_closed

    def check_open(self) -> None:
        if self.is_closed:
            raise Closed(what=f"the producer for {self._topic!r}")

    def add(self, message: Outgoing, route: Route, size: int, max_message_bytes: int) -> Added:
        with self._mutex:
            self.check_open()
            chunk = self._chunk_for(route)
            if chunk.values and chunk.measure() + size > self._limits(route).size_bytes:
                self._seal(chunk)
                chunk = self._chunk_for(route)
            is_first = not chunk.values
            if is_first:
                chunk.opened_at, chunk.timestamp_ms = self._clock.monotonic(), self._clock.now_ms()
                self._open.add(chunk)
            row = chunk.add(message, size)
            return Added(chunk, row, is_first, self._seal_or_extend(chunk, max_message_bytes))

    def add_rows(self, rows: BulkRows) -> None:
        """Adds rows that came as a whole, after the content of their route's chunk."""
        with self._mutex:
            self.check_open()
            chunk = self._chunk_for(rows.route)
            if chunk.values:
                self._seal(chunk)
            self._submit(rows)

    def keeps(self, chunk: Chunk, row: int) -> bool:
        """Whether a message that was appended without the mutex is in its chunk, see Chunk."""
        with self._mutex:
            return chunk.keeps(row)

    def take_ready(self, max_bytes: int) -> list[PendingRows]:
        """The next rows to send; many together if they are split by key, so that frames get large."""
        taken: list[PendingRows] = []
        size = 0
        with self._mutex:
            while self.ready:
                following = self.ready[0]
                if taken and not _go_together(taken[0], following, size + following.size <= max_bytes):
                    break
                taken.append(self.ready.popleft())
                size += following.size
        return taken

    def drain_ready(self) -> list[PendingRows]:
        with self._mutex:
            drained = list(self.ready)
            self.ready.clear()
        return drained

    def _limits(self, route: Route) -> BatchLimits:
        return self._config.batch_limits(delayed=route.delayed)

    def seal_due(self) -> None:
        """Seals what has lingered long enough, or everything if it is urgent."""
        latest = self._clock.monotonic() - self._config.linger_seconds
        with self._mutex:
            for chunk in list(self._open):
                if self.is_urgent or chunk.opened_at <= latest:
                    self._seal(chunk)

    def seal_all(self) -> None:
        with self._mutex:
            for chunk in list(self._open):
                self._seal(chunk)

    def linger_left(self) -> float | None:
        """Seconds until the oldest chunk has lingered long enough; None without one."""
        with self._mutex:
            opened = [chunk.opened_at for chunk in self._open]
        if not opened:
            return None
        return max(0.0, min(opened) + self._config.linger_seconds - self._clock.monotonic())

    def close(self) -> None:
        """Accepts no more messages."""
        with self._mutex:
            self.is_closed = True
            self._close_windows()

    def after_fork(self) -> None:
        self._mutex = threading.Lock()
        self._close_windows()

    def _close_windows(self) -> None:
        for chunk in self._open:
            chunk.close_window()

    def _chunk_for(self, route: Route) -> Chunk:
        is_plain = route == PLAIN_ROUTE
        chunk = self.own.chunk if is_plain else self._routes.get(route)
        if chunk is None or chunk.is_sealed:
            chunk = Chunk(self._topic, route)
            if is_plain:
                self.own.chunk = chunk
            else:
                self._routes[route] = chunk
        return chunk

    def _seal_or_extend(self, chunk: Chunk, max_message_bytes: int) -> bool:
        """Seals a full chunk, and opens another one to small messages without the mutex."""
        max_bytes, max_messages = self._limits(chunk.route)
        if chunk.size >= max_bytes or len(chunk.values) >= max_messages:
            self._seal(chunk)
            return True
        if self._config.linger_seconds and max_message_bytes >= SMALL_VALUE_BYTES + SMALL_KEY_BYTES:
            chunk.open_window(max_bytes, max_messages)
        return False

    def _seal(self, chunk: Chunk) -> None:
        """Makes a chunk ready; under the mutex, so that chunks leave in the order they were filled."""
        chunk.seal()
        chunk.outcome.is_complete = True
        if self._routes.get(chunk.route) is chunk:
            del self._routes[chunk.route]
        self._submit(chunk)
        self._open.discard(chunk)  # last: whoever does not find it here any more finds it among the unsettled

    def _submit(self, pending: PendingRows) -> None:
        self._unsettled.add(pending.size, 1)
        self.ready.append(pending)


def _go_together(first: PendingRows, following: PendingRows, fits: bool) -> bool:
    return fits and first.is_hashed and following.is_hashed and first.route == following.route
