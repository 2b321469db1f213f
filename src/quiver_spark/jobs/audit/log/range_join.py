"""The ranges of one partition joined: what is wrong between them. Pure."""

from collections.abc import Iterable

from quiver_spark.jobs.audit.finding import Finding, Findings, Kind
from quiver_spark.jobs.audit.log.producer_sequences import JoinedSequences
from quiver_spark.jobs.audit.log.range_checks import (
    UNKNOWN,
    GapRules,
    RangeEnd,
    RangeReport,
    gap_sentence,
    overlap_sentence,
)


class PartitionJoin:
    """Takes the reports of a partition in the order of their offsets."""

    def __init__(self, topic: str, partition: int, rules: GapRules, *, limit: int, by_path: bool = False) -> None:
        self._topic, self._partition = topic, partition
        self._rules = rules
        self._by_path = by_path
        self._last: RangeEnd | None = None
        self._removed_below = 0
        self._replaced_to = 0
        """Below this, files that compaction has joined into an earlier one may have been read as well."""
        self._sequences = JoinedSequences()
        self.total = RangeReport(findings=Findings(limit=limit))

    def take_all(self, reports: Iterable[RangeReport]) -> RangeReport:
        """The partition as one range. A frame is counted once."""
        listed = list(reports)
        self._removed_below = max((report.removed_below for report in listed), default=0)
        for report in listed:
            self._take(report)
        return self.total

    def _take(self, report: RangeReport) -> None:
        total = self.total
        total.findings.take(report.findings)
        for reason, count in report.explained.items():
            total.explained[reason] = total.explained.get(reason, 0) + count
        total.size_bytes += report.size_bytes
        if report.first is None or report.last is None:
            return
        if report.first.offset < self._replaced_to:  # its frames are in the file that took its place, too
            return
        total.frames += report.frames
        total.messages += report.messages
        total.markers += report.markers
        if self._last is not None:
            self._check_border(self._last, report.first)
        for ends in report.producers:
            repeat = self._sequences.check(ends)
            if repeat is not None:
                kind: Kind = "duplicate" if repeat.is_copy else "sequence"
                self._add(kind, repeat.offset, repeat.last_offset, repeat.sentence)
        if report.is_replaced:
            self._replaced_to = report.last.offset
        total.first = total.first or report.first
        total.last = self._last = _further(self._last, report.last)

    def _check_border(self, last: RangeEnd, first: RangeEnd) -> None:
        if first.offset < last.offset:
            self._add("order", first.offset, last.offset - 1, overlap_sentence(last.offset))
        elif first.offset > last.offset:
            self._check_gap(last, first)
        if UNKNOWN < first.leader_epoch < last.leader_epoch:
            self._add("order", first.offset, first.offset,
                      f"leader epoch {first.leader_epoch} comes after {last.leader_epoch}")  # fmt: skip
        if UNKNOWN < first.append_time_ms < last.append_time_ms:
            back = last.append_time_ms - first.append_time_ms
            self._add("order", first.offset, first.offset,
                      f"the append time is {back} ms before that of the frame before")  # fmt: skip

    def _check_gap(self, last: RangeEnd, first: RangeEnd) -> None:
        begin, total = last.offset, self.total
        is_new = last.leader_epoch != UNKNOWN and first.leader_epoch > last.leader_epoch
        reasons = self._rules.reasons(begin, first.offset, is_new_epoch=is_new)
        for reason, stop in [("retention", min(self._removed_below, first.offset)), *reasons]:
            if stop > begin:
                total.explained[reason] = total.explained.get(reason, 0) + stop - begin
                begin = stop
        if begin < first.offset:
            self._add("gap", begin, first.offset - 1, gap_sentence(first.offset - begin, by_path=self._by_path))

    def _add(self, kind: Kind, first: int, last: int, sentence: str) -> None:
        self.total.findings.add(Finding(self._topic, self._partition, kind, first, last, sentence))


def _further(last: RangeEnd | None, other: RangeEnd) -> RangeEnd:
    if last is None:
        return other
    return RangeEnd(
        max(last.offset, other.offset),
        max(last.leader_epoch, other.leader_epoch),
        max(last.append_time_ms, other.append_time_ms),
    )
