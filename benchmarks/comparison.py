"""The work that every subject does: bulk publish, bulk consume, both at once, latency at a steady rate, many keys."""

from collections.abc import Sequence

from benchmarks.machine.limits import synced_write
from benchmarks.payload import Payload
from benchmarks.percentiles import latency_metrics
from benchmarks.roles import Role, run_roles, span
from benchmarks.run import Run
from benchmarks.servers.server import cpu_seconds
from benchmarks.subject import Subject

LATENCY_RATE = 1_000.0
LATENCY_WARM_UP = 200
PUBLISH_BYTES = 512
"""About what a single publish of 100 B adds to a log."""
WORK_BATCH = 100
WARM_UP_SHARE = 0.05
KEYED_TIMEOUT = 400
WORKLOADS = ("publish", "consume", "both", "latency", "work", "keyed")


def compare(run: Run, subjects: Sequence[Subject], workloads: set[str]) -> None:
    """All repetitions of the wanted workloads; the subjects take turns, so that they share the machine's moods.

    Latency and work queues are of the smallest messages only. JSON is for subjects that can compress it: to the
    others it is 1 KB like any other.
    """
    warm_up(run, subjects[0])
    smallest = run.scale.payloads[0]
    for payload in run.scale.payloads:
        for _ in run.repetitions():
            for subject in subjects:
                _bulk_turn(run, subject, payload, workloads)
                if "latency" in workloads and payload == smallest and subject.has_latency:
                    latency(run, subject, payload)
                if "work" in workloads and payload == smallest and subject.work_messages:
                    work(run, subject, payload)
    if "keyed" in workloads:
        for _ in run.repetitions():
            for subject in subjects:
                keyed(run, subject, run.scale.wide_partitions, subject.keyed_messages)


def warm_up(run: Run, subject: Subject) -> None:
    """A little of the work before anything is timed: servers compile, import and grow at their first messages.

    The subjects of a comparison share a server.
    """
    count = max(100, int(run.scale.count(subject.bulk_messages) * WARM_UP_SHARE))
    subject.reset()
    roles = {
        "consume": Role(subject.consume, (count,)),
        "produce": Role(subject.produce, (count, run.scale.payloads[0])),
    }
    run_roles(roles)


def _bulk_turn(run: Run, subject: Subject, payload: Payload, workloads: set[str]) -> None:
    if payload.kind == "JSON" and not subject.compressions:
        return
    if payload.compression != "none" and payload.compression not in subject.compressions:
        return
    if workloads & {"publish", "consume"}:
        publish_and_consume(run, subject, payload)
    if "both" in workloads and payload.kind == "random":
        both_at_once(run, subject, payload)


def publish_and_consume(run: Run, subject: Subject, payload: Payload) -> None:
    count = bulk_count(run, subject, subject.bulk_messages, payload)
    subject.reset()
    bulk(run, subject, "publish", payload, Role(subject.produce, (count, payload)), count)
    bulk(run, subject, "consume", payload, Role(subject.consume, (count,)), count)


def bulk(
    run: Run, subject: Subject, workload: str, payload: Payload, role: Role, count: int, detail: str | None = None
) -> None:
    with run.measuring(
        subject.name,
        workload,
        size=payload.size,
        durability=subject.durability,
        detail=payload.detail if detail is None else detail,
        server_pids=subject.pids(),
    ) as metrics:
        server = cpu_seconds(subject.pids())
        outcome = run_roles({workload: role}, timeout=120 if detail is None else KEYED_TIMEOUT)[workload]
        metrics["rate"] = count / outcome.seconds
        metrics["client_cores"] = outcome.cpu_seconds / outcome.seconds
        metrics["server_cores"] = (cpu_seconds(subject.pids()) - server) / outcome.seconds


def both_at_once(run: Run, subject: Subject, payload: Payload) -> None:
    """One producer and one consumer; from the start of both until the last message is received and acknowledged."""
    count = bulk_count(run, subject, subject.both_messages, payload)
    subject.reset()
    with run.measuring(
        subject.name, "both", size=payload.size, durability=subject.durability, server_pids=subject.pids()
    ) as metrics:
        roles = {"consume": Role(subject.consume, (count,)), "produce": Role(subject.produce, (count, payload))}
        metrics["rate"] = count / span(run_roles(roles))


def keyed(run: Run, subject: Subject, partitions: int, full: int) -> None:
    """Publishes by key to all partitions of a topic of many, and reads them all."""
    if not full:
        return
    count, payload = run.scale.count(full), run.scale.payloads[0]
    detail = f"{partitions} partitions"
    subject.reset_wide(partitions)
    bulk(run, subject, "keyed publish", payload, Role(subject.produce_keyed, (count, payload)), count, detail)
    bulk(run, subject, "keyed consume", payload, Role(subject.consume, (count,)), count, detail)


def work(run: Run, subject: Subject, payload: Payload) -> None:
    """One consumer of a full work queue: in batches, then with an acknowledgement for each message."""
    count = run.scale.count(subject.work_messages)
    for workload, batch in (("work in batches", WORK_BATCH), ("work one by one", 1)):
        subject.reset()
        run_roles({"produce": Role(subject.produce, (count, payload))})
        bulk(run, subject, workload, payload, Role(subject.work, (count, batch)), count)


def latency(run: Run, subject: Subject, payload: Payload) -> None:
    """One producer that waits for each ack, at a steady rate, and one consumer that follows.

    Just before, the same rate of appends and syncs without a broker: what the disk alone takes.
    """
    count = run.scale.latency_messages + LATENCY_WARM_UP
    subject.reset()
    with run.measuring(
        subject.name, "latency", size=payload.size, durability=subject.durability, server_pids=subject.pids()
    ) as metrics:
        disk = _disk_latency(run)
        roles = {
            "consume": Role(subject.consume_stamped, (count,)),
            "produce": Role(subject.produce_paced, (count, payload, LATENCY_RATE)),
        }
        outcomes = run_roles(roles)
        metrics |= latency_metrics("ack", outcomes["produce"].result[LATENCY_WARM_UP:])
        metrics |= latency_metrics("receive", outcomes["consume"].result[LATENCY_WARM_UP:])
        metrics |= disk
        metrics["rate_achieved"] = count / outcomes["produce"].seconds


def _disk_latency(run: Run) -> dict[str, float]:
    path = run.scratch / "paced.bin"
    measured = synced_write(path, max(10, run.scale.latency_messages // 2), PUBLISH_BYTES, rate=LATENCY_RATE)
    path.unlink()
    return {name.replace("sync_", "disk_"): value for name, value in measured.items() if name.startswith("sync_")}


def bulk_count(run: Run, subject: Subject, full: int, payload: Payload) -> int:
    return run.scale.count(full if payload.size < 1000 else int(full * subject.large_share))
