"""Messages of one lease of this client. Pure."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby

from quiver.model.errors import CorruptData, InvalidFrame, LeaseLost
from quiver.model.limits import Limits
from quiver.protocol.queue_messages import ReceivedRun
from quiver.records.header import COLUMN_OFFSET_DELTA, unpack_header
from quiver.records.read import OpenFrame, open_frame
from quiver.structures.interval_set import IntervalSet

LeaseKey = tuple[int, int, int, int]
"""Topic id, partition, group id, lease id: identifies a lease for the broker."""

_NO_BYTES = memoryview(b"")


class HeldRun:
    """A received run: its content, the end of its lease, and the state of its messages.

    Offsets are closed when they need nothing more from here: settled, given back, or lost.
    """

    __slots__ = (
        "_closed",
        "_closed_count",
        "_frame",
        "_offsets",
        "attempt",
        "count",
        "expires_at",
        "extended",
        "first_delivered_ms",
        "last_error",
        "lease",
        "level",
        "lost",
        "partition",
        "renew_at",
        "size_bytes",
        "topic",
        "visibility_ms",
    )

    def __init__(self, run: ReceivedRun, topic: str, frame: memoryview, now: float) -> None:
        """Raises CorruptData if the frame cannot be one."""
        self.topic = topic
        self.partition = run.partition
        self.lease: LeaseKey = (run.topic_id, run.partition, run.group_id, run.lease_id)
        self.attempt = run.attempt
        self.first_delivered_ms = run.first_delivered_ms
        self.last_error = run.last_error
        self.visibility_ms = run.visibility_ms
        self.size_bytes = len(frame)
        self._frame = frame
        try:
            header = unpack_header(frame)
        except InvalidFrame as error:
            raise self._corrupt(error, run.end) from None
        self.level = header.priority
        self.count = header.record_count
        self._offsets: Sequence[int] | None = None
        if not header.columns & COLUMN_OFFSET_DELTA:
            self._offsets = range(header.base_offset, header.base_offset + header.record_count)
        self._closed: IntervalSet | None = None
        self._closed_count = 0
        self.lost: IntervalSet | None = None
        """Offsets that are lost according to the broker."""
        self.extended: dict[int, float] | None = None
        """Offsets whose lease was extended by the user, and until when."""
        self.renewed(now)

    # time

    def renewed(self, now: float) -> None:
        """The lease now lasts a whole visibility time."""
        self.expires_at = now + self.visibility_ms / 1000
        self.renew_later(now)

    def renew_later(self, now: float) -> None:
        self.renew_at = now + self.visibility_ms / 3000

    def extend(self, start: int, end: int, now: float, duration_ms: int) -> None:
        """Offsets were extended by the user: they are not renewed before that time."""
        self.extended = self.extended or {}
        self.extended.update(dict.fromkeys(range(start, end), now + duration_ms / 1000))

    # offsets

    @property
    def is_closed(self) -> bool:
        return self._closed_count >= self.count

    @property
    def open_count(self) -> int:
        return max(0, self.count - self._closed_count)

    def close(self, start: int, end: int) -> None:
        if self._closed is None:
            self._closed = IntervalSet()
        self._closed_count += self._closed.add(start, end)

    def reopen(self, start: int, end: int) -> None:
        """Messages that were to be settled were not."""
        if self._closed is not None:
            self._closed_count -= self._closed.remove(start, end)

    def lose(self, start: int, end: int) -> None:
        self.lost = self.lost or IntervalSet()
        self.lost.add(start, end)
        self.close(start, end)

    def open_ranges(self) -> list[tuple[int, int]]:
        """What is neither settled nor lost."""
        closed, offsets = self._closed, self.offsets()
        if closed is None:
            return list(ranges_of(offsets))
        if isinstance(offsets, range):
            return list(closed.gaps(offsets.start, offsets.stop))
        return list(ranges_of(offset for offset in offsets if offset not in closed))

    def renewable_ranges(self, now: float) -> list[tuple[int, int]]:
        """What is open and would end earlier if it were not renewed."""
        extended = self.extended
        if extended is None:
            return self.open_ranges()
        until = now + self.visibility_ms / 1000
        offsets = (o for start, end in self.open_ranges() for o in range(start, end))
        return list(ranges_of(o for o in offsets if extended.get(o, 0.0) < until))

    def offsets(self) -> Sequence[int]:
        if self._offsets is None:
            self._offsets = open_frame(self._frame).offsets()
        return self._offsets

    def loss(self, start: int, end: int) -> LeaseLost:
        """The error that names these messages."""
        which = f"offset {start}" if end == start + 1 else f"offsets {start} to {end - 1}"
        return LeaseLost(message=f"{self.topic}-{self.partition} {which}")

    def check_not_lost(self, offset: int) -> None:
        if self.lost is not None and offset in self.lost:
            raise self.loss(offset, offset + 1)

    # content

    def open(self, limits: Limits) -> OpenFrame:
        """Checks and opens the frame, once: its bytes are not kept here. Raises CorruptData if it is damaged."""
        try:
            opened = open_frame(self._frame, limits=limits)
        except InvalidFrame as error:
            raise self._corrupt(error, 0) from None
        self._offsets = opened.offsets()
        self._frame = _NO_BYTES
        return opened

    def _corrupt(self, error: InvalidFrame, next_offset: int) -> CorruptData:
        where = f"{self.topic}-{self.partition}"
        return CorruptData(where=where, problem=error.message, next_offset=next_offset)


def ranges_of(offsets: Iterable[int]) -> Iterator[tuple[int, int]]:
    """Offsets in order, as half-open ranges without holes."""
    if isinstance(offsets, range):
        if offsets:
            yield offsets.start, offsets.stop
        return
    for _, members in groupby(enumerate(offsets), key=lambda item: item[1] - item[0]):
        run = [offset for _, offset in members]
        yield run[0], run[-1] + 1
