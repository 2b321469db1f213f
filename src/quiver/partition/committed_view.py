"""What readers of committed messages see of a partition."""

import contextlib

from quiver.model.errors import InvalidFrame
from quiver.model.topic import TopicConfig
from quiver.partition.transactions import AbortedTransaction, TransactionTable
from quiver.records.header import FrameHeader
from quiver.records.read import split_frames
from quiver.storage.port import Log


class CommittedView:
    def __init__(self, log: Log, config: TopicConfig) -> None:
        self.log = log
        self.high_watermark = log.readable_offset
        """Readers see what is below. Raised by the writer task alone, on the loop, together with `newest` and before
        watchers wake; `log.readable_offset` is raised earlier, by the thread that writes, and is not for readers."""
        self.transactions = TransactionTable()
        self._config = config

    @property
    def is_compacted(self) -> bool:
        """Offsets below its end may be empty, because a later message has their key."""
        return self._config.is_compacted

    @property
    def last_stable(self) -> int:
        """Readers of committed messages see what is below: no transaction is open there."""
        first = self.transactions.first_open_offset()
        end = self.high_watermark
        return end if first is None else max(self.log.start_offset, min(first, end))

    @property
    def visible_end(self) -> int:
        """Behind the last message that readers of committed messages can see now."""
        return max(self.log.start_offset, min(self.transactions.visible_end, self.last_stable))

    def is_visible(self, header: FrameHeader) -> bool:
        """Whether a stored frame below `last_stable` holds messages that count."""
        return not header.is_control and not self.transactions.is_aborted(header)

    def aborted_in(self, start: int, size_bytes: int) -> list[AbortedTransaction]:
        """What was aborted of so many bytes of committed frames from an offset on, by first offset."""
        table = self.transactions
        if "compact" in self._config.cleanup:  # markers may be gone, and so it is not known how far the bytes reach
            return table.aborted_within(start, self.last_stable)
        return table.aborted_in_slice(start, self.last_stable, size_bytes)

    def hidden_frames(self, data: bytes | memoryview, start: int) -> frozenset[int]:
        """Where the frames begin, among stored ones read from an offset on, that do not count."""
        if not self.aborted_in(start, len(data)):
            return frozenset()
        found = set()
        with contextlib.suppress(InvalidFrame):  # whoever opens the frames says what is wrong
            found = {header.base_offset for _, header in split_frames(data) if self.transactions.is_aborted(header)}
        return frozenset(found)

    def aborted_counts(self, start: int, end: int) -> tuple[int, ...]:
        """Messages by priority that the log counts between two offsets, and that were aborted there."""
        return self.transactions.aborted_counts(max(start, self.log.clean_to), end)
