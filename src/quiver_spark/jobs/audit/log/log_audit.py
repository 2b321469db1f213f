"""The audit of logs: planned on the driver, done in tasks, joined on the driver."""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from quiver.reader.log_reader import LogReader
from quiver.reader.segment_directory import SegmentDirectory
from quiver_spark.direct.catalogue import DirectCatalogue
from quiver_spark.jobs.audit.finding import Finding
from quiver_spark.jobs.audit.log.fetched_slice import audit_slice
from quiver_spark.jobs.audit.log.range_checks import FAR, GapRules, RangeReport
from quiver_spark.jobs.audit.log.range_join import PartitionJoin
from quiver_spark.jobs.audit.log.segment_files import SegmentFile, audit_segment, lost_frames
from quiver_spark.jobs.audit.topics import AuditedTopic
from quiver_spark.source.catalogue import Catalogue
from quiver_spark.source.options import ReadOptions
from quiver_spark.source.slices import Slice, cut, pack


class AuditedRange(NamedTuple):
    """What one report is about: a segment file, or a slice through the broker. Sent to the workers."""

    slice: Slice
    file: SegmentFile | None = None
    compacted_below: int = 0
    in_memory: bool = False
    is_first: bool = True

    def audit(self, options: ReadOptions, limit: int) -> RangeReport:
        if self.file is not None:
            return audit_segment(self.file, limit)
        rules = GapRules(compacted_below=self.compacted_below, in_memory=self.in_memory)
        return audit_slice(self.slice, options, rules, limit, is_first=self.is_first)


class LogPlan(NamedTuple):
    tasks: list[tuple[AuditedRange, ...]]
    findings: list[Finding]
    """Findings of the planning."""
    files: int

    @property
    def size_bytes(self) -> int:
        return sum(audited.slice.size_bytes for task in self.tasks for audited in task)


def plan_logs(topics: Sequence[AuditedTopic], catalogue: Catalogue, *, cores: int) -> LogPlan:
    findings: list[Finding] = []
    if isinstance(catalogue, DirectCatalogue):
        ranges = [
            audited
            for topic in topics
            for number in range(len(topic.ranges))
            for audited in segment_ranges(topic, number, catalogue.log(topic.name, number), findings)
        ]
    else:
        ranges = [audited for topic in topics for audited in _slices(topic, cores)]
    by_slice = {audited.slice: audited for audited in ranges}
    groups = pack(by_slice, cores=cores)
    groups.sort(key=lambda group: -sum(slice_.size_bytes for slice_ in group))
    tasks = [tuple(by_slice[slice_] for slice_ in group) for group in groups]
    return LogPlan(tasks, findings, sum(1 for audited in ranges if audited.file is not None))


def _slices(topic: AuditedTopic, cores: int) -> list[AuditedRange]:
    each, facts = topic.extent.bytes_each, topic.facts
    whole = [
        Slice(topic.name, number, start, end, topic.extent.id, int((end - start) * each))
        for number, (start, end) in enumerate(topic.ranges)
    ]
    below = FAR if facts.is_compacted else 0
    return [
        AuditedRange(slice_, None, below, facts.in_memory, is_first=slice_.start == topic.ranges[slice_.partition][0])
        for slice_ in cut(whole, cores=cores)
    ]


def segment_ranges(topic: AuditedTopic, number: int, log: LogReader, findings: list[Finding]) -> list[AuditedRange]:
    """The files of a partition that have offsets of its range."""
    start, end = topic.ranges[number]
    directory = log.directory
    if start == topic.extent.earliest[number] and end == topic.extent.latest[number]:
        findings += lost_frames(topic.name, number, directory)
        end = FAR
    # Inodes are read before the names: if compaction replaces a file in between, its inode differs from this one.
    inodes = {segment: _inode(segment.path) for segment in log.segments}
    files = SegmentDirectory(directory)
    counted = set(files.base_offsets())
    segments = [segment for segment in log.segments if segment.base_offset in counted]
    compacted, done = topic.facts.is_compacted, files.compacted_below()
    found = []
    for place, segment in enumerate(segments):
        is_last = place == len(segments) - 1
        stop = log.end_offset if is_last else segments[place + 1].base_offset
        if stop <= start or segment.base_offset >= end or not segment.size_bytes:
            continue
        below = max(done, segments[-1].base_offset) if compacted else done
        file = SegmentFile(
            topic=topic.name,
            partition=number,
            directory=str(directory),
            base_offset=segment.base_offset,
            size_bytes=segment.size_bytes,
            inode=inodes[segment],
            stop=stop,
            is_last=is_last,
            certain_bytes=segment.size_bytes,
            start=start,
            end=end,
            compacted_below=below,
            is_compacted=compacted,
        )
        slice_ = Slice(topic.name, number, segment.base_offset, stop, topic.extent.id, segment.size_bytes)
        found.append(AuditedRange(slice_, file))
    return found


def _inode(path: Path) -> int:
    try:
        return path.stat().st_ino
    except FileNotFoundError:
        return -1


def join_logs(
    topics: Sequence[AuditedTopic],
    catalogue: Catalogue,
    reports: Sequence[tuple[Slice, RangeReport]],
    *,
    limit: int,
) -> list[RangeReport]:
    """One report per partition, with what is wrong between its ranges."""
    by_partition: dict[tuple[str, int], list[tuple[Slice, RangeReport]]] = {}
    for slice_, report in reports:
        by_partition.setdefault((slice_.topic, slice_.partition), []).append((slice_, report))
    facts = {topic.name: topic.facts for topic in topics}
    joined = []
    for (topic, number), found in sorted(by_partition.items()):
        if isinstance(catalogue, DirectCatalogue):
            directory = catalogue.log(topic, number).directory
            joined.append(join_files(found, directory, is_compacted=facts[topic].is_compacted, limit=limit))
        else:
            below = FAR if facts[topic].is_compacted else 0
            rules = GapRules(compacted_below=below, in_memory=facts[topic].in_memory)
            joined.append(PartitionJoin(topic, number, rules, limit=limit).take_all(in_order(found)))
    return joined


def in_order(found: Sequence[tuple[Slice, RangeReport]]) -> list[RangeReport]:
    return [report for _, report in sorted(found, key=lambda each: each[0].start)]


def join_files(
    found: Sequence[tuple[Slice, RangeReport]], directory: Path, *, is_compacted: bool, limit: int
) -> RangeReport:
    """The files of one partition. Those before the first that exists now were removed by retention."""
    files = SegmentDirectory(directory)
    start = min(files.base_offsets(), default=FAR)
    for slice_, report in found:
        if report.is_gone and slice_.start < start:
            report.removed_below = min(start, slice_.stop)
    below = files.compacted_below()
    rules = GapRules(compacted_below=max(below, files.last_base_offset()) if is_compacted else below)
    slice_ = found[0][0]
    return PartitionJoin(slice_.topic, slice_.partition, rules, limit=limit, by_path=True).take_all(in_order(found))
