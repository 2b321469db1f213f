"""Message ids: which of them a partition has seen within the topic's window, and where those messages are.

The newest are in a dictionary, the others in immutable maps of about 100,000, oldest first. Times are kept as
offsets: append times never go back, so everything below some offset is past the window. Transactions are kept as
ranges of offsets: an id of an aborted one is free, and an id of an open one is undecided. Pure: no I/O, and no clock
but the one that is passed in.
"""

from collections import deque
from collections.abc import Callable, Iterable, KeysView
from typing import NamedTuple

import msgspec
import numpy as np

from quiver.model.limits import MESSAGE_IDS_REMEMBERED
from quiver.partition.id_keys import Key, Keys
from quiver.records.header import COLUMN_ID, FrameHeader
from quiver.structures.digest_map import DigestMap, Digests, WantedDigests
from quiver.structures.interval_set import IntervalSet

_SEALED_IDS = 1 << 17
_WINDOW_STEPS = 1024
"""Ids are forgotten in steps of this fraction of the window."""

Entries = dict[Key, int]
"""Offsets by key."""


class FirstMessage(NamedTuple):
    """The first message with an id."""

    offset: int
    delayed: bool = False
    """It is in the schedule log; the offset is its id there."""


class Screening(NamedTuple):
    """What is known of the messages of a frame, by row."""

    repeats: dict[int, FirstMessage]
    within: dict[int, int]
    """Rows that repeat a new message of the same frame, with the row of that message."""
    undecided: set[int]
    """Rows that repeat a message that may still be aborted."""


class IdChange(NamedTuple):
    """What `record` or `close` did, for `take_back`."""

    entries: Entries
    replaced: Entries
    header: FrameHeader
    closed: "OpenIds | None" = None


class OpenIds(msgspec.Struct):
    """The offsets of an open transaction's frames with ids."""

    epoch: int
    ranges: IntervalSet


class _Step(msgspec.Struct, array_like=True):
    """Messages with ids that were appended about the same time."""

    offset: int
    begun_ms: int
    newest_ms: int


class MessageIdsSnapshot(msgspec.Struct, array_like=True, frozen=True):
    sealed: list[memoryview] = []
    steps: list[_Step] = []
    open: dict[int, tuple[int, list[int]]] = {}
    aborted: list[int] = []


class MessageIds:
    """`settled_below` tells which offsets are as durable as the topic requires. Ids count in frames that have
    `columns`; `delayed` is for schedule logs."""

    def __init__(
        self, window_ms: int, *, settled_below: Callable[[], int], columns: int = COLUMN_ID, delayed: bool = False
    ) -> None:
        self.window_ms = window_ms
        """0: ids are ignored."""
        self.sibling: MessageIds | None = None
        """The ids of the schedule log, or of the partition that it belongs to: an id counts once in both."""
        self._settled_below = settled_below
        self._columns = columns
        self.delayed = delayed
        self._active: Entries = {}
        self._sealed: deque[tuple[DigestMap, int]] = deque()
        """Each with the offset after its last message."""
        self._steps: deque[_Step] = deque()
        self._end = 0
        """The offset after the last message with an id."""
        self._now_ms: Callable[[], int] | None = None
        self._open: dict[int, OpenIds] = {}
        self._aborted = IntervalSet()

    def __len__(self) -> int:
        """All entries, also those that no longer count."""
        return len(self._active) + sum(len(sealed) for sealed, _ in self._sealed)

    def counts(self, header: FrameHeader) -> bool:
        """Whether the frame has ids that matter."""
        return header.columns & self._columns == self._columns and self.window_ms > 0

    def let_go(self) -> None:
        """Drops the references to the partition and its sibling when the partition is gone."""
        self._settled_below, self.sibling = lambda: 0, None

    @property
    def newest_ms(self) -> int:
        """When the last message with an id was stored."""
        return self._steps[-1].newest_ms if self._steps else 0

    def go_by(self, now_ms: Callable[[], int]) -> None:
        """From now on the window is measured on the steady clock: append times stop when the wall clock is set back,
        and jump when it is set ahead. It must not be behind `newest_ms`."""
        self._now_ms = now_ms

    def configure(self, window_ms: int) -> None:
        """A longer window does not bring back what is forgotten."""
        self.window_ms = window_ms
        if not window_ms:
            self._forget_all()

    # asking

    def screen(self, keys: Keys, now_ms: int, transaction: tuple[int, int] | None = None) -> Screening:
        """`transaction` is the producer id and epoch of the transaction that the messages are part of."""
        first_rows: dict[Key, int] = {}
        screening = Screening({}, {}, set())
        for row, key in enumerate(keys):
            if key is not None and (first := first_rows.setdefault(key, row)) != row:
                screening.within[row] = first
        self._judge(self, first_rows, now_ms, transaction, screening)
        if self.sibling is not None:
            self._judge(self.sibling, first_rows, now_ms, transaction, screening)
        if screening.repeats or screening.undecided:
            _follow(screening)
        return screening

    def _judge(
        self,
        table: "MessageIds",
        first_rows: dict[Key, int],
        now_ms: int,
        transaction: tuple[int, int] | None,
        screening: Screening,
    ) -> None:
        for key, offset in table.find(first_rows.keys(), now_ms).items():
            row = first_rows[key]
            if row in screening.repeats or row in screening.undecided:
                continue
            holder = table._open_at(offset)
            is_unsettled = table is not self and offset >= table._settled_below()
            if is_unsettled or (holder is not None and holder != transaction):
                screening.undecided.add(row)
            else:
                screening.repeats[row] = FirstMessage(offset, table.delayed)

    def find(self, keys: KeysView[Key], now_ms: int) -> Entries:
        """The offsets of those that are known and were not aborted."""
        self.expire(now_ms)
        found = {key: self._active[key] for key in self._active.keys() & keys}
        found = {key: offset for key, offset in found.items() if self._is_valid(offset)}
        if not self._sealed or len(found) == len(keys):
            return found
        listed = list(keys)
        digests = WantedDigests(Digests.of(listed))
        for sealed, _ in reversed(self._sealed):
            for row, offset in zip(*sealed.find(digests), strict=True):
                if listed[row] not in found and self._is_valid(offset):
                    found[listed[row]] = offset
        return found

    def _is_valid(self, offset: int) -> bool:
        return bool(self._steps) and offset >= self._steps[0].offset and offset not in self._aborted

    def _open_at(self, offset: int) -> tuple[int, int] | None:
        for producer_id, opened in self._open.items():
            if offset in opened.ranges:
                return producer_id, opened.epoch
        return None

    # changing

    def record(self, header: FrameHeader, entries: Entries, *, is_new: bool) -> IdChange:
        """A frame has its offset. Known ids keep their offsets, unless these are undecided; `is_new` says that none
        is known."""
        if not is_new:
            for key, offset in self.find(entries.keys(), header.append_time_ms).items():
                if self._open_at(offset) is None:
                    del entries[key]
        active = self._active
        replaced = {key: active[key] for key in active.keys() & entries.keys()}
        active.update(entries)
        self._end = header.next_offset
        self._step(header)
        if header.is_transactional:
            opened = self._open.setdefault(header.producer_id, OpenIds(header.producer_epoch, IntervalSet()))
            opened.ranges.add(header.base_offset, header.next_offset)
        return IdChange(entries, replaced, header)

    def close(self, header: FrameHeader, *, commit: bool) -> IdChange | None:
        """The marker of a transaction has its offset."""
        closed = self._open.pop(header.producer_id, None)
        if closed is None:
            return None
        if not commit:
            for start, stop in closed.ranges:
                self._aborted.add(start, stop)
        return IdChange({}, {}, header, closed)

    def take_back(self, change: IdChange) -> None:
        """Undoes a change after a write that failed; the last one first, and before `written`."""
        header = change.header
        if change.closed is not None:
            self._open[header.producer_id] = change.closed
            for start, stop in change.closed.ranges:
                self._aborted.remove(start, stop)
            return
        for key in change.entries:
            self._active.pop(key, None)
        self._active.update(change.replaced)
        opened = self._open.get(header.producer_id) if header.is_transactional else None
        if opened is not None:
            opened.ranges.remove(header.base_offset, header.next_offset)
            if not opened.ranges:
                del self._open[header.producer_id]

    def written(self) -> None:
        """Everything that was recorded is in the log."""
        if len(self._active) >= _SEALED_IDS:
            self._seal()

    def _step(self, header: FrameHeader) -> None:
        time_ms = header.append_time_ms if self._now_ms is None else self._now_ms()
        for step in reversed(self._steps):
            if step.offset <= header.base_offset:
                break
            step.offset = header.base_offset  # left over from a failed write, whose offsets are in use now
        if self._steps and time_ms - self._steps[-1].begun_ms <= self.window_ms // _WINDOW_STEPS:
            self._steps[-1].newest_ms = time_ms
        else:
            self._steps.append(_Step(header.base_offset, time_ms, time_ms))

    def _seal(self) -> None:
        sealed = _sealed(self._active)
        self._active = {}
        if self._sealed and len(self._sealed[-1][0]) + len(sealed) <= _SEALED_IDS:
            sealed = self._sealed.pop()[0].joined(sealed)
        self._sealed.append((sealed, self._end))
        while len(self) - len(self._sealed[0][0]) >= MESSAGE_IDS_REMEMBERED:
            self._sealed.popleft()

    # forgetting

    def expire(self, now_ms: int) -> None:
        """Forgets what is past the window. `now_ms` is used if there is no clock."""
        if self._now_ms is not None:
            now_ms = self._now_ms()
        steps, latest_ms = self._steps, now_ms - self.window_ms
        if not steps or steps[0].newest_ms > latest_ms:
            return
        while steps and steps[0].newest_ms <= latest_ms:
            steps.popleft()
        if not steps:
            self._forget_all()
            return
        first = steps[0].offset
        while self._sealed and self._sealed[0][1] <= first:
            self._sealed.popleft()
        self._aborted.remove(-1, first)

    def _forget_all(self) -> None:
        self._active.clear()
        self._sealed.clear()
        self._steps.clear()
        self._aborted.clear()

    # snapshots

    def snapshot(self) -> MessageIdsSnapshot:
        """A copy for a snapshot, which does not change."""
        sealed = [each for each, _ in self._sealed]
        if self._active:
            sealed.append(_sealed(self._active))
        return MessageIdsSnapshot(
            [memoryview(each.pack()) for each in sealed],
            [msgspec.structs.replace(step) for step in self._steps],
            {producer_id: (opened.epoch, opened.ranges.encode()) for producer_id, opened in self._open.items()},
            self._aborted.encode(),
        )

    def restore(self, snapshot: MessageIdsSnapshot) -> None:
        """Raises ValueError if it is not a snapshot."""
        maps = [DigestMap(packed) for packed in snapshot.sealed]
        opened = {id: OpenIds(epoch, IntervalSet.decode(ranges)) for id, (epoch, ranges) in snapshot.open.items()}
        self._aborted, self._open = IntervalSet.decode(snapshot.aborted), opened
        self._sealed = deque((each, each.highest() + 1) for each in maps if len(each))
        self._end = self._sealed[-1][1] if self._sealed else 0
        self._steps = deque(snapshot.steps)


def _sealed(entries: Entries) -> DigestMap:
    return DigestMap.of(Digests.of(entries), np.fromiter(entries.values(), np.int64, len(entries)))


def _follow(screening: Screening) -> None:
    """A message that repeats a repeat of the same frame is a repeat of the first message."""
    for row, first in list(screening.within.items()):
        if first in screening.repeats:
            screening.repeats[row] = screening.repeats[first]
        elif first in screening.undecided:
            screening.undecided.add(row)
        else:
            continue
        del screening.within[row]


def first_entries(keys: Iterable[Key | None], offsets: Iterable[int]) -> Entries:
    """If a key occurs several times, the first offset counts."""
    entries: Entries = {}
    for key, offset in zip(keys, offsets, strict=True):
        if key is not None:
            entries.setdefault(key, offset)
    return entries
