"""The audit of a lake against the logs that it was made from: planned and judged on the driver."""

import math
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from quiver.reader.data_directory import DataDirectory
from quiver.reader.segment_directory import SegmentDirectory
from quiver_spark.jobs.audit.finding import Finding
from quiver_spark.jobs.audit.lake.checks import (
    ArchivedPartition,
    Counts,
    FileReport,
    Span,
    check_counts,
    check_covered,
    check_files,
    check_position,
    check_ranges,
)
from quiver_spark.jobs.audit.lake.compare import CompareTask
from quiver_spark.jobs.audit.lake.counts import CountTask, FileTask, LakeAnswer
from quiver_spark.jobs.audit.topics import AuditedTopic
from quiver_spark.lake.files import LakeFile, date_of
from quiver_spark.lake.table import Lake
from quiver_spark.source.catalogue import Catalogue, TopicExtent, open_catalogue
from quiver_spark.source.options import ReadOptions
from quiver_spark.source.slices import Slice, cut

_FILES_A_TASK = 64


class LakePlan(NamedTuple):
    archived: list[ArchivedPartition]
    tasks: list[CountTask | FileTask]

    @property
    def files(self) -> int:
        return sum(len(each.files) + len(each.earlier) for each in self.archived)


class LakeAudit:
    """`lake` was opened before the logs were looked at: so nothing is in it that they had not."""

    def __init__(self, lake: Lake, topics: Sequence[AuditedTopic], options: ReadOptions, *, cores: int) -> None:
        self._lake = lake
        self._options = options._replace(committed=True, fail_on_data_loss=True)
        self._cores = cores
        self._catalogue: Catalogue = open_catalogue(self._options)
        self._stable: dict[str, TopicExtent] = {}
        files = lake.files()
        self._archived = [each for topic in topics for each in self._partitions(topic, files)]

    def _partitions(self, topic: AuditedTopic, files: Sequence[LakeFile]) -> Iterable[ArchivedPartition]:
        self._lake.check_archive(topic.name)
        self._stable[topic.name] = stable = self._catalogue.extent(topic.name)
        created_us = topic.facts.created_at_ms * 1000
        by_partition: dict[int, list[LakeFile]] = {number: [] for number in range(len(topic.ranges))}
        for file in files:
            if file.topic == topic.name:
                by_partition.setdefault(file.partition, []).append(file)
        for number, found in sorted(by_partition.items()):
            if number >= len(topic.ranges):  # a topic that had the name before had more partitions
                yield ArchivedPartition(topic.name, number, (), None, 0, 0, 0, False, tuple(found))
                continue
            start, end = topic.ranges[number]
            position = self._lake.position(topic.name, topic.extent.id, number)
            latest = topic.extent.latest[number]
            if topic.facts.in_memory and self._options.path is not None:
                latest = max(latest, position or 0)  # what is in memory is in no file
            yield ArchivedPartition(
                topic.name,
                number,
                tuple(file for file in found if _is_of(file, topic, created_us)),
                position,
                latest,
                max(start, stable.earliest[number]),
                min(end, stable.latest[number]),
                topic.facts.is_compacted or self._was_compacted(topic, number),
                tuple(file for file in found if not _is_of(file, topic, created_us)),
            )

    def _was_compacted(self, topic: AuditedTopic, number: int) -> bool:
        if self._options.path is None:
            return False
        log = self._catalogue.completed(Slice(topic.name, number, 0, 0)).log
        directory = DataDirectory(self._options.path).log_directory(log)
        return SegmentDirectory(directory).compacted_below() > 0

    def plan(self) -> LakePlan:
        spans = [(file, each.compared(file)) for each in self._archived for file in (*each.earlier, *each.files)]
        tasks: list[CountTask | FileTask] = [
            FileTask(self._lake.place, tuple(spans[place : place + _FILES_A_TASK]))
            for place in range(0, len(spans), _FILES_A_TASK)
        ]
        for each in self._archived:
            tasks += self._count_tasks(each)
        return LakePlan(self._archived, tasks)

    def _count_tasks(self, archived: ArchivedPartition) -> Iterable[CountTask]:
        start, stop = max(archived.low, archived.begin), min(archived.high, archived.position or 0)
        stop = max([stop, *(min(file.stop, archived.high) for file in archived.files)])
        if not archived.files or start >= stop:
            return
        borders = {border for file in archived.files for border in (file.start, file.stop, archived.position or 0)}
        for slice_ in cut([self._slice(archived, start, stop)], cores=self._cores):
            inside = [border for border in borders if slice_.start < border < slice_.stop]
            task_borders = (slice_.start, *sorted(inside), slice_.stop)
            yield CountTask(self._catalogue.completed(slice_), task_borders, self._options)

    def _slice(self, archived: ArchivedPartition, start: int, stop: int) -> Slice:
        topic = self._stable[archived.topic]
        size = math.ceil((stop - start) * topic.bytes_each)
        return Slice(archived.topic, archived.partition, start, stop, topic.id, size)

    def judge(self, answers: Iterable[LakeAnswer], tasks: Sequence[CountTask | FileTask]) -> "LakeVerdict":
        """`answers` are those to the tasks of the plan, in their order."""
        reports: dict[str, FileReport] = {}
        counts: dict[tuple[str, int], dict[tuple[int, str], int]] = {}
        unknown: dict[tuple[str, int], list[Span]] = {}
        for task, answer in zip(tasks, answers, strict=True):
            reports |= {report.path: report for report in answer.files}
            if isinstance(task, CountTask):
                place = task.slice.topic, task.slice.partition
                unknown.setdefault(place, []).extend(answer.unknown)
                counts.setdefault(place, {}).update(
                    {(begin, date_of(day)): count for begin, day, count in answer.counts}
                )
        verdict = LakeVerdict([], [])
        for each in self._archived:
            place = each.topic, each.partition
            self._judge(each, reports, counts.get(place, {}), unknown.get(place, []), verdict)
        return verdict

    def _judge(
        self,
        archived: ArchivedPartition,
        reports: dict[str, FileReport],
        counts: Counts,
        unknown: list[Span],
        verdict: "LakeVerdict",
    ) -> None:
        verdict.findings.extend(check_ranges(archived))
        verdict.findings.extend(check_position(archived))
        verdict.findings.extend(check_files(archived, reports))
        verdict.findings.extend(check_covered(archived, counts))
        for file, finding in check_counts(archived, reports, counts, unknown):
            verdict.findings.append(finding)
            verdict.doubtful.append(file)

    def compare_tasks(self, files: Iterable[LakeFile] | None, limit: int) -> list[CompareTask]:
        """For some files of the lake, or for all that the log has something of."""
        chosen = None if files is None else {file.path for file in files}
        return [
            CompareTask(
                each._replace(files=(), earlier=()),
                file,
                self._lake.place,
                self._completed(each, file),
                self._options,
                limit,
            )
            for each in self._archived
            for file in each.files
            if (chosen is None or file.path in chosen) and each.compared(file)[0] < each.compared(file)[1]
        ]

    def _completed(self, archived: ArchivedPartition, file: LakeFile) -> Slice:
        return self._catalogue.completed(self._slice(archived, *archived.compared(file)))

    def close(self) -> None:
        self._catalogue.close()


def _is_of(file: LakeFile, topic: AuditedTopic, created_us: int) -> bool:
    """Whether a file is of this topic, or of another that had its name. Without an id, the time of creation tells."""
    return file.topic_id == topic.extent.id if file.topic_id is not None else file.max_append_us >= created_us


class LakeVerdict(NamedTuple):
    findings: list[Finding]
    doubtful: list[LakeFile]
    """Files with another count than the log: a look at their messages says which."""
