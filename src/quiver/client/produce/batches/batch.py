"""Batches: messages of one partition that are sent as one frame."""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from quiver.client.produce.batches.routing import Routed, RoutedRows
from quiver.client.produce.options import ProducerConfig
from quiver.client.produce.route import Route
from quiver.client.produce.rows import ONE_ROW, Frame, Rows, renumbered
from quiver.model.errors import QuiverError
from quiver.records.single import single_frame
from quiver.structures.reused_buffers import ReusedBuffers

if TYPE_CHECKING:
    from quiver.client.produce.batches.send_outcome import Placement, SendOutcome

UNNUMBERED = -1
_NONE: Mapping[int, tuple[int, bool]] = {}
SendQueueKey = tuple[int, bool]
"""The partition, and whether the messages are delayed: the broker numbers those separately."""


class Batch:
    """Messages of one partition and priority that are sent as one frame."""

    __slots__ = (
        "base_offset",
        "count",
        "deadline",
        "duplicate_rows",
        "duplicates",
        "error",
        "error_seen",
        "frame",
        "hashed",
        "identity",
        "is_buffered",
        "is_head",
        "is_uncertain",
        "last_error",
        "outcomes",
        "partition",
        "placement",
        "route",
        "rows",
        "sent_at",
        "sequence",
        "serial",
        "size",
    )

    def __init__(
        self, outcomes: Sequence["SendOutcome"], route: Route, part: RoutedRows, *, size: int, deadline: float
    ) -> None:
        self.outcomes = outcomes
        """The outcomes whose messages may be in it."""
        self.route = route
        self.partition = part.partition
        self.rows: Rows | None = part.rows
        self.hashed = part.hashed
        self.count = len(part.rows)
        self.size = size
        self.deadline = deadline
        self.serial = 0
        self.sequence = UNNUMBERED
        self.identity = (-1, -1)
        self.frame: Frame | None = None
        self.sent_at = 0.0
        self.is_head = False
        """Sent while nothing before it was in flight, so `out of sequence` can only be about this batch."""
        self.is_uncertain = False
        """A connection, or one between two workers, broke before the response: it may be stored already."""
        self.base_offset: int | None = None
        self.is_buffered = False
        """It is in the broker's local buffer."""
        self.duplicates: Mapping[int, tuple[int, bool]] = _NONE
        """Repeats by row: the offset of the first message with the id, and whether that is the id of a delayed
        message."""
        self.duplicate_rows: Sequence[int] = ()
        """In order."""
        self.last_error: QuiverError | None = None
        """Why it had to be sent again."""
        self.error: QuiverError | None = None
        self.error_seen = False
        self.placement: Placement | None = None

    @property
    def queue_key(self) -> SendQueueKey:
        return self.partition, self.route.delayed

    @property
    def is_settled(self) -> bool:
        return self.base_offset is not None or self.error is not None

    @property
    def current(self) -> "Batch":
        """Of a batch of one message: the one that it is in now, which is another one after it was routed again."""
        return self if self.placement is None else self.placement.locate(0)[0]

    def build(
        self,
        identity: tuple[int, int],
        config: ProducerConfig,
        buffers: ReusedBuffers | None = None,
        traced: Callable[[Rows], Rows] | None = None,
    ) -> Frame:
        """The frame with this identity and the batch's sequence; built once, and renumbered if necessary.

        `traced` adds headers to the messages that begin a trace.
        """
        producer_id, epoch = identity
        sequence = self.sequence if producer_id >= 0 else -1
        if self.frame is None:
            assert self.rows is not None
            rows = self.rows if traced is None else traced(self.rows)
            self.frame = rows.seal(
                buffers,
                priority=self.route.priority,
                compression=config.compression,
                producer_id=producer_id,
                producer_epoch=epoch,
                base_sequence=sequence,
                transactional=config.is_transactional,
            )
            self.rows = None
        elif self.identity != (producer_id, epoch):
            self.frame = renumbered(self.frame, producer_id=producer_id, producer_epoch=epoch, base_sequence=sequence)
        self.identity = (producer_id, epoch)
        return self.frame

    def build_single(self, value: bytes, key: bytes | None, now_ms: int, identity: tuple[int, int]) -> None:
        """Builds the frame, of one small message and uncompressed."""
        self.identity = identity
        self.frame = single_frame(
            value,
            key,
            timestamp_ms=now_ms,
            priority=self.route.priority,
            identity=(*identity, self.sequence),
        )

    def note_stored(self, duplicates: Sequence[tuple[int, int, bool]], *, is_buffered: bool) -> None:
        """Which messages are repeats, according to the broker, and whether the others are in its buffer."""
        self.is_buffered = is_buffered
        if duplicates:
            self.duplicates = {row: (offset, is_delayed) for row, offset, is_delayed in duplicates}
            self.duplicate_rows = sorted(self.duplicates)

    def open_rows(self) -> Rows:
        if self.rows is not None:
            return self.rows
        assert self.frame is not None
        return Rows.from_frame(self.frame)

    def release(self) -> None:
        self.rows = self.frame = None


def single_batch(
    outcome: "SendOutcome", route: Route, partition: int, *, hashed: bool, size: int, deadline: float
) -> Batch:
    """The batch of one message, of which there will only be a frame."""
    batch = Batch([outcome], route, RoutedRows(partition, ONE_ROW, hashed), size=size, deadline=deadline)
    batch.rows = None
    return batch


def batches_of(
    routed: Routed, outcomes: Sequence["SendOutcome"], route: Route, size: int, deadline: float
) -> list[Batch]:
    """One batch per part; the size is divided by count, and the sum stays exact."""
    total = sum(len(part.rows) for part in routed.parts)
    batches: list[Batch] = []
    left = size
    for part in routed.parts:
        share = size * len(part.rows) // total if len(batches) < len(routed.parts) - 1 else left
        left -= share
        batches.append(Batch(outcomes, route, part, size=share, deadline=deadline))
    return batches
