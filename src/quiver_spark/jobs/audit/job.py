"""`audit`: checks every stored frame of topics, and compares their archive with them.

Each task reads a part of a log and returns its findings and the frames at both ends; the driver joins these reports.
Nothing is changed, neither in the log nor in the lake.
"""

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from quiver.model.errors import InvalidRequest
from quiver_spark.jobs.arguments import SessionOrFactory, batch_read_options, started
from quiver_spark.jobs.audit.finding import KEPT, Finding, Findings
from quiver_spark.jobs.audit.lake.counts import LakeAnswer
from quiver_spark.jobs.audit.lake.lake_audit import LakeAudit
from quiver_spark.jobs.audit.log.log_audit import AuditedRange, LogPlan, join_logs, plan_logs
from quiver_spark.jobs.audit.log.range_checks import RangeReport
from quiver_spark.jobs.audit.topics import AuditedTopic, audited_topics
from quiver_spark.jobs.progress import Summary, progress_bar
from quiver_spark.lake.opening import open_lake
from quiver_spark.lake.table import Lake
from quiver_spark.runtime.cluster import cores
from quiver_spark.runtime.small_results import on_workers
from quiver_spark.runtime.stopwatch import Stopwatch
from quiver_spark.source.catalogue import open_catalogue
from quiver_spark.source.options import ReadOptions
from quiver_spark.source.slices import TASKS_PER_CORE

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class AuditSummary(Summary, kw_only=True):
    """`rows` counts stored messages, `files` the files of the log and the lake that were read."""

    findings: list[Finding] = msgspec.field(default_factory=list)
    """By topic, partition and offset; of each kind as many as `keep` allows."""
    counts: dict[str, int] = msgspec.field(default_factory=dict)
    """By kind, all that were found."""
    explained: dict[str, int] = msgspec.field(default_factory=dict)
    """Offsets without a frame, by what explains them."""

    @property
    def is_clean(self) -> bool:
        return not self.counts

    def record(self) -> dict[str, Any]:
        """As for every job; `document` has the findings too."""
        return {
            **super().record(),
            "empty_offsets": sum(self.explained.values()),
            "findings": sum(self.counts.values()),
        }

    def document(self) -> dict[str, Any]:
        """Everything, in plain data."""
        rest = {"explained": self.explained, "counts": self.counts, "findings": self.findings}
        plain: dict[str, Any] = msgspec.to_builtins({**self.record(), **rest})
        return plain


def run(
    spark: SessionOrFactory,
    source: ReadOptions | Mapping[str, object],
    *,
    lake: str | Path | None = None,
    deep: bool = False,
    keep: int = KEPT,
    show_progress: bool | None = None,
) -> AuditSummary:
    """Checks topics, and with `lake` their archive; `deep` compares every message with the lake.

    `source` has the options of a batch read, by their names: `{"topic": "orders", "path": "/var/lib/quiver"}`.
    Findings are not errors: they are in the summary, up to `keep` of each kind.
    """
    if deep and lake is None:
        raise InvalidRequest(problem="deep compares messages with a lake: name it")
    if keep < 1:
        raise InvalidRequest(problem=f"keep: {keep} must be 1 or more")
    options = batch_read_options(source)._replace(committed=False, fail_on_data_loss=False)
    archive = None if lake is None else open_lake(lake)
    catalogue = open_catalogue(options)
    try:
        topics = audited_topics(catalogue, options)
        spark, watch = started(spark), Stopwatch()
        plan = plan_logs(topics, catalogue, cores=cores(spark))
        with progress_bar("audit", plan.size_bytes, "bytes", wanted=show_progress) as bar:
            with bar.watch(spark, plan.size_bytes):
                answers = on_workers(
                    spark, plan.tasks, lambda task: _audit(task, options, keep), list[RangeReport], "the audit"
                )
            reports = [(audited.slice, report) for task, answer in zip(plan.tasks, answers, strict=True)
                       for audited, report in zip(task, answer, strict=True)]  # fmt: skip
            joined = join_logs(topics, catalogue, reports, limit=keep)
            findings = Findings(limit=keep)
            findings.add_all(plan.findings)
            for report in joined:
                findings.take(report.findings)
            lake_files = 0
            if archive is not None:
                lake_files = _audit_lake(spark, archive, topics, options, findings, deep=deep)
    finally:
        catalogue.close()
    return _summary(topics, plan, joined, findings, lake_files, watch.seconds())


def _audit(task: tuple[AuditedRange, ...], options: ReadOptions, keep: int) -> list[RangeReport]:
    return [audited.audit(options, keep) for audited in task]


def _audit_lake(
    spark: "SparkSession",
    lake: Lake,
    topics: list[AuditedTopic],
    options: ReadOptions,
    findings: Findings,
    *,
    deep: bool,
) -> int:
    """Returns how many files of the lake were looked at."""
    audit = LakeAudit(lake, topics, options, cores=cores(spark))
    try:
        plan = audit.plan()
        most = cores(spark) * TASKS_PER_CORE
        what = "the audit of the lake"
        answers = on_workers(spark, plan.tasks, lambda task: task.answer(), LakeAnswer, what, at_most=most)
        verdict = audit.judge(answers, plan.tasks)
        findings.add_all(verdict.findings)
        compared = audit.compare_tasks(None if deep else verdict.doubtful, findings.limit)
        what = "comparing with the lake"
        for answer in on_workers(spark, compared, lambda task: task.answer(), Findings, what):
            findings.take(answer)
    finally:
        audit.close()
    return plan.files


def _summary(
    topics: list[AuditedTopic],
    plan: LogPlan,
    joined: list[RangeReport],
    findings: Findings,
    lake_files: int,
    seconds: float,
) -> AuditSummary:
    explained: dict[str, int] = {}
    for report in joined:
        for reason, count in report.explained.items():
            explained[reason] = explained.get(reason, 0) + count
    details: dict[str, Any] = {
        "topics": [topic.name for topic in topics],
        "partitions": sum(len(topic.ranges) for topic in topics),
        "frames": sum(report.frames for report in joined),
        "markers": sum(report.markers for report in joined),
        "lake_files": lake_files,
    }
    return AuditSummary(
        job="audit",
        rows=sum(report.messages for report in joined),
        files=plan.files,
        bytes=sum(report.size_bytes for report in joined),
        seconds=seconds,
        details=details,
        findings=sorted(findings.kept, key=lambda each: (each.topic, each.partition, each.first_offset)),
        counts=findings.counts,
        explained=explained,
    )


def main(argv: list[str]) -> int:
    """The command line without `quiver pipeline audit`; returns the exit status."""
    from quiver_spark.jobs.command_line import run_command

    return run_command("audit", argv)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
