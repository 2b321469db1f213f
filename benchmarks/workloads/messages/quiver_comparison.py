"""Quiver's side of the comparison: the ways to use it, on one broker, taking turns."""

from benchmarks.comparison import bulk, bulk_count, compare, latency
from benchmarks.machine.limits import synced_write
from benchmarks.quiver_subject import QuiverSubject
from benchmarks.roles import Role
from benchmarks.run import Run
from benchmarks.servers.broker import Broker
from benchmarks.subject import Subject

PUBLISH_BYTES = 512
"""About what a single publish of 100 B adds to the log."""


def compare_quiver(run: Run, workloads: set[str]) -> list[Subject]:
    with Broker(run.scratch / "comparison") as broker:
        bulk_fsync = QuiverSubject(
            "quiver", broker, durability="fsync", publish_with="send_many", read_with="batches"
        )
        bulk_interval = QuiverSubject(
            "quiver-interval", broker, durability="interval", publish_with="send_many", read_with="batches"
        )
        single = QuiverSubject("quiver-single", broker, durability="fsync", publish_with="send", read_with="messages")
        single_interval = QuiverSubject(
            "quiver-single-interval", broker, durability="interval", publish_with="send", read_with="messages"
        )
        arrow = QuiverSubject(
            "quiver-arrow", broker, durability="fsync", publish_with="send_arrow", read_with="batches"
        )
        subjects = [bulk_fsync, bulk_interval, single, single_interval]
        try:
            compare(run, subjects, workloads - {"latency"})
            if "publish" in workloads:
                _publish_arrow(run, arrow)
            if "latency" in workloads:
                _latency(run, [bulk_fsync, bulk_interval])
        finally:
            for subject in [*subjects, arrow]:
                subject.stop()
        return [*subjects, arrow]


def _publish_arrow(run: Run, subject: QuiverSubject) -> None:
    for size in run.scale.sizes:
        for _ in run.repetitions():
            count = bulk_count(run, subject, subject.bulk_messages, size)
            subject.reset()
            bulk(run, subject, "publish", size, Role(subject.produce, (count, size)), count)


def _latency(run: Run, subjects: list[QuiverSubject]) -> None:
    """Beside each repetition, the same rate of appends and fdatasyncs without a broker."""
    for _ in run.repetitions():
        with run.measuring("machine", "paced fdatasync", detail="1,000 a second") as metrics:
            path = run.scratch / "paced.bin"
            metrics |= synced_write(path, run.scale.latency_messages, PUBLISH_BYTES, rate=1_000)
            path.unlink()
        for subject in subjects:
            latency(run, subject, min(run.scale.sizes))
