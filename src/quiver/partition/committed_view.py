"""What readers see of a partition: its watermarks, what is committed below them, and who waits for more."""

import contextlib
import logging
from collections.abc import Callable, Sequence

from quiver.model.errors import CorruptData, InvalidFrame
from quiver.model.priority import Priority
from quiver.model.topic import TopicConfig
from quiver.partition.traffic import Traffic
from quiver.partition.transactions import AbortedTransaction, TransactionTable
from quiver.records.header import CONTROL, HEADER_BYTES, FrameHeader, StampedFrame
from quiver.records.read import split_frames
from quiver.storage.port import Log
from quiver.structures.ordered_set import OrderedSet

logger = logging.getLogger(__name__)


class CommittedView:
    """Raised by the partition's writer task alone, on the event loop."""

    def __init__(self, name: str, log: Log, transactions: TransactionTable, config: TopicConfig) -> None:
        self._name = name
        self.traffic = Traffic()
        self._log = log
        self._transactions = transactions
        self._config = config
        self.high_watermark = log.readable_offset
        """Readers see what is below. Raised in one step with `newest` and before watchers wake;
        `log.readable_offset` is raised earlier, by the thread that writes, and is not for readers."""
        self.newest = [self.high_watermark] * len(Priority)
        """Per priority, the offset after its last frame since opening: a level that was read up to there has nothing
        new below `high_watermark`."""
        self.aborted_gone_below = 0
        """The last compaction left no data of aborted transactions below."""
        self._knows_newest = False
        self._watchers: OrderedSet[Callable[[], None]] = OrderedSet()

    def configure(self, config: TopicConfig) -> None:
        self._config = config

    # how far

    def advance(self, frames: Sequence[StampedFrame], *, is_ahead: bool = False) -> None:
        """The frames are written: readers see them from now on, unless they are in a local buffer, or no other
        replica may have them yet (`is_ahead`)."""
        newest, traffic = self.newest, self.traffic
        if is_ahead or self._log.is_buffering:
            newest = list(newest)
        for header, _, _ in frames:
            newest[header.priority] = header.base_offset + header.last_offset_delta + 1
            if not header.attributes & CONTROL:
                traffic.published_messages += header.record_count
                traffic.published_bytes += header.length + HEADER_BYTES
                traffic.published_frames += 1
        self.high_watermark = self._log.readable_offset

    def advance_to_readable(self) -> None:
        """Frames of any priority that were in a local buffer can be read."""
        self.high_watermark = self._log.readable_offset
        self.newest[:] = [self.high_watermark] * len(self.newest)

    @property
    def last_stable(self) -> int:
        """Readers of committed messages see what is below: no transaction is open there."""
        first = self._transactions.first_open_offset()
        end = self.high_watermark
        return end if first is None else max(self._log.start_offset, min(first, end))

    @property
    def visible_end(self) -> int:
        """After the last message that readers of committed messages can see now."""
        return max(self._log.start_offset, min(self._transactions.visible_end, self.last_stable))

    async def find_newest(self) -> None:
        """Called once after opening: a level without stored messages has nothing new either."""
        if self._knows_newest:
            return
        start, known = self._log.start_offset, list(self.newest)
        self._knows_newest = True
        with contextlib.suppress(CorruptData):
            for level, count in enumerate(await self._log.count_by_priority(start)):
                if not count and self.newest[level] == known[level]:
                    self.newest[level] = start

    # what counts

    @property
    def is_compacted(self) -> bool:
        """Offsets below its end may have no message, because compaction keeps only the last one of each key."""
        return self._config.is_compacted

    def is_visible(self, header: FrameHeader) -> bool:
        """Whether a stored frame below `last_stable` is committed."""
        return not header.is_control and not self._transactions.is_aborted(header)

    def aborted_in(self, start: int, size_bytes: int) -> list[AbortedTransaction]:
        """The aborted transactions in so many bytes of frames from an offset on, by first offset."""
        table = self._transactions
        if "compact" in self._config.cleanup:  # markers may be gone, so it is not known how far the bytes reach
            return table.aborted_within(start, self.last_stable)
        return table.aborted_in_slice(start, self.last_stable, size_bytes)

    def hidden_frames(self, data: bytes | memoryview, start: int) -> frozenset[int]:
        """The base offsets of aborted frames among stored frames read from an offset on."""
        if not self.aborted_in(start, len(data)):
            return frozenset()
        found = set()
        with contextlib.suppress(InvalidFrame):  # damage is reported when the frames are opened
            found = {header.base_offset for _, header in split_frames(data) if self._transactions.is_aborted(header)}
        return frozenset(found)

    def aborted_counts(self, start: int, end: int) -> tuple[int, ...]:
        """Messages by priority between two offsets that the log counts although they were aborted."""
        return self._transactions.aborted_counts(max(start, self._log.clean_to), end)

    # who waits

    def watch(self, wake: Callable[[], None]) -> None:
        """Calls `wake` whenever there is more to read, until unwatch."""
        self._watchers.add(wake)

    def unwatch(self, wake: Callable[[], None]) -> None:
        self._watchers.discard(wake)

    def wake_watchers(self) -> None:
        for wake in list(self._watchers) if self._watchers else ():
            try:
                wake()
            except Exception:
                logger.exception("a reader that waits for messages of %s was not woken", self._name)
