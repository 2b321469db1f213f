"""Quiver's side of the comparison: the ways to use it, on one broker, taking turns."""

from benchmarks.comparison import bulk, bulk_count, compare, keyed
from benchmarks.quiver_subject import QuiverSubject
from benchmarks.roles import Role
from benchmarks.run import Run
from benchmarks.servers.broker import Broker
from benchmarks.subject import Subject

WIDEST_MESSAGES = 500_000


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
            compare(run, subjects, workloads)
            if "publish" in workloads:
                _publish_arrow(run, arrow)
            if "keyed" in workloads:
                for subject in (bulk_fsync, bulk_interval):
                    keyed(run, subject, run.scale.widest_partitions, WIDEST_MESSAGES)
                    _publish_again(run, subject, run.scale.widest_partitions)
        finally:
            for subject in [*subjects, arrow]:
                subject.stop()
        return [*subjects, arrow]


def _publish_again(run: Run, subject: QuiverSubject, partitions: int) -> None:
    """By key to partitions that have messages: the first message of each makes its files."""
    count, payload = run.scale.count(WIDEST_MESSAGES), run.scale.payloads[0]
    role = Role(subject.produce_keyed, (count, payload))
    bulk(run, subject, "keyed publish", payload, role, count, f"{partitions} partitions that have messages")


def _publish_arrow(run: Run, subject: QuiverSubject) -> None:
    for payload in run.scale.payloads:
        for _ in run.repetitions() if payload.compression == "none" else ():
            count = bulk_count(run, subject, subject.bulk_messages, payload)
            subject.reset()
            bulk(run, subject, "publish", payload, Role(subject.produce, (count, payload)), count)
