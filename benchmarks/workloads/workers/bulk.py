"""Bulk publish and consume: what more workers take of the processor for a message."""

from benchmarks.quiver_subject import QuiverSubject
from benchmarks.roles import Role, run_roles
from benchmarks.run import Run
from benchmarks.servers.broker import Broker
from benchmarks.servers.server import cpu_seconds

PARTITIONS = 16
FULL_MESSAGES = 6_000_000


def measure_bulk(run: Run, broker: Broker, workers: int, number: int) -> None:
    count, payload = run.scale.count(FULL_MESSAGES), run.scale.payloads[0]
    subject = QuiverSubject(
        f"bulk-{number}", broker, durability="fsync", publish_with="send_many", read_with="batches"
    )
    subject.reset_wide(PARTITIONS)
    roles = {"publish": Role(subject.produce, (count, payload)), "consume": Role(subject.consume, (count,))}
    for name, role in roles.items():
        with run.measuring(
            "quiver",
            "workers",
            size=payload.size,
            durability="fsync",
            detail=f"bulk {name}, {PARTITIONS} partitions, {workers} workers",
            server_pids=[broker.pid],
        ) as metrics:
            before = cpu_seconds([broker.pid])
            outcome = run_roles({name: role})[name]
            broker_seconds = cpu_seconds([broker.pid]) - before
            metrics["rate"] = count / outcome.seconds
            metrics["broker_us_per_message"] = broker_seconds / count * 1e6
            metrics["cpu_us_per_message"] = (broker_seconds + outcome.cpu_seconds) / count * 1e6
    subject.stop()
