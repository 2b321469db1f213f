"""The checks of one range of a log: frames in, findings out. Pure.

A range is what one task reads of a partition. Its report has its first and last frame, so that the
driver, which has all reports, can check across their borders.
"""

from collections.abc import Callable
from typing import NamedTuple

import msgspec

from quiver.reader.segment_directory import Standing
from quiver.records.header import FrameHeader
from quiver_spark.jobs.audit.finding import KEPT, Finding, Findings, Kind
from quiver_spark.jobs.audit.log.producer_sequences import ProducerEnds, ProducerSequences

FAR = 2**62
UNKNOWN = -1


class FilePosition(NamedTuple):
    """The position of a frame in a file."""

    file: str
    position: int


class GapRules:
    """What explains offsets without a frame.

    Compaction removes messages below some offset. A broker that starts after a kill skips offsets and has a new
    epoch. The messages of a topic with durability `memory` start above those that it had on disk.
    """

    def __init__(
        self, *, compacted_below: int = 0, look_again: Callable[[], int] | None = None, in_memory: bool = False
    ) -> None:
        """`look_again` returns the current offset, for a log that is compacted during the audit."""
        self.compacted_below = compacted_below
        self._look_again = look_again
        self._in_memory = in_memory

    def reasons(self, first: int, stop: int, *, is_new_epoch: bool) -> list[tuple[str, int]]:
        """Why there is no frame from an offset on, and up to where each reason holds. It may end below `stop`."""
        if is_new_epoch:
            return [("unclean stop", stop)]
        if self._in_memory:
            return [("memory", stop)]
        if self.compacted_below < stop and self._look_again is not None:
            self.compacted_below = max(self.compacted_below, self._look_again())
        return [("compaction", min(stop, self.compacted_below))] if self.compacted_below > first else []


class RangeEnd(msgspec.Struct, array_like=True, frozen=True):
    """An end of a range. Epoch and time are UNKNOWN where it is damaged."""

    offset: int
    leader_epoch: int
    append_time_ms: int


class RangeReport(msgspec.Struct, kw_only=True):
    first: RangeEnd | None = None
    """None: there is no frame."""
    last: RangeEnd | None = None
    """The offset after the last frame, with the highest epoch and time."""
    frames: int = 0
    messages: int = 0
    """Stored ones, aborted ones included."""
    markers: int = 0
    size_bytes: int = 0
    explained: dict[str, int] = {}
    """Offsets without a frame, by what explains them."""
    findings: Findings = msgspec.field(default_factory=Findings)
    producers: list[ProducerEnds] = []
    removed_below: int = 0
    """Retention removed everything below this offset before it was read."""
    is_gone: bool = False
    """The file or the topic was deleted before it was read."""
    is_replaced: bool = False
    """The file is not the planned one: compaction put another in its place, which contains the next ones too."""


class RangeChecks:
    """Takes what is in a range, in its order."""

    def __init__(
        self, topic: str, partition: int, rules: GapRules, *, floor: int = 0, limit: int = KEPT, by_path: bool = False
    ) -> None:
        """No frame may have an offset below `floor`."""
        self._topic, self._partition = topic, partition
        self._rules = rules
        self._by_path = by_path
        self._begin: int | None = None
        self._first: RangeEnd | None = None
        self._next = floor
        self._epoch = self._time = UNKNOWN
        self._sequences = ProducerSequences()
        self.report = RangeReport(findings=Findings(limit=limit))

    @property
    def next_offset(self) -> int:
        """The offset after everything so far."""
        return self._next

    @property
    def standing(self) -> Standing:
        """Where the checks are: a frame found after damage must not be before this."""
        return Standing(self._next, self._epoch, max(0, self._time))

    def frame(self, header: FrameHeader, *, is_good: bool = True, where: FilePosition | None = None) -> None:
        """A frame with a good header. `is_good`: its checksum over the body is right too."""
        report = self.report
        report.frames += 1
        report.size_bytes += header.frame_bytes
        if header.is_control:
            report.markers += 1
        else:
            report.messages += header.record_count
        base, last = header.base_offset, header.last_offset
        if not is_good:
            self._add("crc", base, last, "the body fails its checksum", where)
        self._check_sequence(header, where)
        if base < self._next:
            self._add("order", base, last, overlap_sentence(self._next), where)
            return
        if self._begin is None:
            self._begin = base
        elif base > self._next:
            self._check_gap(base, header.leader_epoch, where)
        self._check_rising(header, where)
        if self._first is None:
            self._first = RangeEnd(self._begin, header.leader_epoch, header.append_time_ms)
        self._next = last + 1

    def damage(self, stop: int, problem: str, where: FilePosition | None = None) -> None:
        """Nothing can be read from the current offset up to another."""
        if self._begin is None:
            self._begin = self._next
        self._add("crc", self._next, max(self._next, stop - 1), problem, where)
        self._next = max(self._next, stop)

    def lost(self, stop: int, sentence: str) -> None:
        """The log now ends before an offset that it had."""
        self._add("lost", self._next, stop - 1, sentence)
        self._next = stop

    def begin_at(self, offset: int) -> None:
        """Moves the floor of a range of which nothing was checked yet."""
        self._next = offset

    def removed(self, stop: int) -> None:
        """Retention removed everything below an offset before it was read."""
        self.report.removed_below = max(self.report.removed_below, stop)
        self._next = max(self._next, stop)

    def finish(self) -> RangeReport:
        report = self.report
        if self._begin is not None:
            report.first = self._first or RangeEnd(self._begin, UNKNOWN, UNKNOWN)
            report.last = RangeEnd(self._next, self._epoch, self._time)
        report.producers = list(self._sequences.ends())
        return report

    def _check_gap(self, base: int, epoch: int, where: FilePosition | None) -> None:
        begin = self._next
        is_new = self._epoch != UNKNOWN and epoch > self._epoch
        for reason, stop in self._rules.reasons(begin, base, is_new_epoch=is_new):
            self.report.explained[reason] = self.report.explained.get(reason, 0) + stop - begin
            begin = stop
        if begin < base:
            self._add("gap", begin, base - 1, gap_sentence(base - begin, by_path=self._by_path), where)

    def _check_rising(self, header: FrameHeader, where: FilePosition | None) -> None:
        epoch, time_ms = header.leader_epoch, header.append_time_ms
        if epoch < self._epoch:
            self._add_frame("order", header, f"leader epoch {epoch} comes after {self._epoch}", where)
        if time_ms < self._time:
            back = self._time - time_ms
            self._add_frame("order", header, f"the append time is {back} ms before that of the frame before", where)
        self._epoch, self._time = max(self._epoch, epoch), max(self._time, time_ms)

    def _check_sequence(self, header: FrameHeader, where: FilePosition | None) -> None:
        repeat = self._sequences.check(header)
        if repeat is not None:
            kind: Kind = "duplicate" if repeat.is_copy else "sequence"
            self._add(kind, repeat.offset, repeat.last_offset, repeat.sentence, where)

    def _add_frame(self, kind: Kind, header: FrameHeader, sentence: str, where: FilePosition | None) -> None:
        self._add(kind, header.base_offset, header.last_offset, sentence, where)

    def _add(self, kind: Kind, first: int, last: int, sentence: str, where: FilePosition | None = None) -> None:
        file, position = where or (None, None)
        self.report.findings.add(Finding(self._topic, self._partition, kind, first, last, sentence, file, position))


def overlap_sentence(stop: int) -> str:
    return f"the frame comes after one that goes up to offset {stop - 1}"


def gap_sentence(count: int, *, by_path: bool) -> str:
    what = f"{count} offset{'s are' if count > 1 else ' is'} missing and nothing explains it"
    return what if by_path else f"{what} (if the topic was compacted once and is not any more, audit its files)"
