"""The work that every subject does: bulk publish, bulk consume, both at once, and latency at a steady rate."""

from collections.abc import Sequence

from benchmarks.percentiles import latency_metrics
from benchmarks.roles import Role, run_roles, span
from benchmarks.run import Run
from benchmarks.servers.server import cpu_seconds
from benchmarks.subject import Subject

LATENCY_RATE = 1_000.0
LATENCY_WARM_UP = 200
WORK_BATCH = 100
WORKLOADS = ("publish", "consume", "both", "latency", "work")


def compare(run: Run, subjects: Sequence[Subject], workloads: set[str]) -> None:
    """All repetitions of the wanted workloads; the subjects take turns, so that they share the machine's moods.

    Latency and work queues are of the smallest messages only.
    """
    for size in run.scale.sizes:
        for _ in run.repetitions():
            for subject in subjects:
                if workloads & {"publish", "consume"}:
                    publish_and_consume(run, subject, size)
                if "both" in workloads:
                    both_at_once(run, subject, size)
                if "latency" in workloads and size == min(run.scale.sizes):
                    latency(run, subject, size)
                if "work" in workloads and size == min(run.scale.sizes) and subject.work_messages:
                    work(run, subject, size)


def publish_and_consume(run: Run, subject: Subject, size: int) -> None:
    count = bulk_count(run, subject, subject.bulk_messages, size)
    subject.reset()
    bulk(run, subject, "publish", size, Role(subject.produce, (count, size)), count)
    bulk(run, subject, "consume", size, Role(subject.consume, (count,)), count)


def bulk(run: Run, subject: Subject, workload: str, size: int, role: Role, count: int) -> None:
    with run.measuring(
        subject.name, workload, size=size, durability=subject.durability, server_pids=subject.pids()
    ) as metrics:
        server = cpu_seconds(subject.pids())
        outcome = run_roles({workload: role})[workload]
        metrics["rate"] = count / outcome.seconds
        metrics["client_cores"] = outcome.cpu_seconds / outcome.seconds
        metrics["server_cores"] = (cpu_seconds(subject.pids()) - server) / outcome.seconds


def both_at_once(run: Run, subject: Subject, size: int) -> None:
    """One producer and one consumer; from the start of both until the last message is received and acknowledged."""
    count = bulk_count(run, subject, subject.both_messages, size)
    subject.reset()
    with run.measuring(
        subject.name, "both", size=size, durability=subject.durability, server_pids=subject.pids()
    ) as metrics:
        roles = {"consume": Role(subject.consume, (count,)), "produce": Role(subject.produce, (count, size))}
        metrics["rate"] = count / span(run_roles(roles))


def work(run: Run, subject: Subject, size: int) -> None:
    """One consumer of a full work queue: in batches, then with an acknowledgement for each message."""
    count = run.scale.count(subject.work_messages)
    for workload, batch in (("work in batches", WORK_BATCH), ("work one by one", 1)):
        subject.reset()
        run_roles({"produce": Role(subject.produce, (count, size))})
        bulk(run, subject, workload, size, Role(subject.work, (count, batch)), count)


def latency(run: Run, subject: Subject, size: int) -> None:
    """One producer that waits for each ack, at a steady rate, and one consumer that follows."""
    count = run.scale.latency_messages + LATENCY_WARM_UP
    subject.reset()
    with run.measuring(
        subject.name, "latency", size=size, durability=subject.durability, server_pids=subject.pids()
    ) as metrics:
        roles = {
            "consume": Role(subject.consume_stamped, (count,)),
            "produce": Role(subject.produce_paced, (count, size, LATENCY_RATE)),
        }
        outcomes = run_roles(roles)
        metrics |= latency_metrics("ack", outcomes["produce"].result[LATENCY_WARM_UP:])
        metrics |= latency_metrics("receive", outcomes["consume"].result[LATENCY_WARM_UP:])
        metrics["rate_achieved"] = count / outcomes["produce"].seconds


def bulk_count(run: Run, subject: Subject, full: int, size: int) -> int:
    return run.scale.count(full if size < 1000 else int(full * subject.large_share))
