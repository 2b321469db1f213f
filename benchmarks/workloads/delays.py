"""Delayed messages: a million pending, how fast they are scheduled, cancelled and listed, and how late they come."""

import time

import quiver
from benchmarks.payload import bodies, endless_bodies
from benchmarks.percentiles import latency_metrics
from benchmarks.roles import Role, Watch, run_roles
from benchmarks.run import Run
from benchmarks.servers.broker import Broker
from benchmarks.servers.server import resident_bytes

PARTITIONS = 3
FULL_MESSAGES = 1_000_000
SIZE, CHUNK = 100, 10_000
PROBES = 200
DUE_SECONDS = 10
DUE_RATES = (5_000, 10_000)
LEAD_SECONDS = 5


def measure_delays(run: Run) -> None:
    count = run.scale.count(FULL_MESSAGES)
    broker = Broker(run.scratch / "delays").start()
    try:
        with quiver.connect(broker.address) as client:
            client.topics.create("pending", partitions=PARTITIONS)
        before = resident_bytes(broker.pid)
        with run.measuring(
            "quiver",
            "delays",
            size=SIZE,
            durability="fsync",
            detail=f"{count} pending",
            server_pids=[broker.pid],
        ) as metrics:
            scheduled = run_roles({"schedule": Role(_schedule, (broker.address, count))}, timeout=300)["schedule"]
            metrics["rate"] = count / scheduled.seconds
            metrics["bytes_each"] = (resident_bytes(broker.pid) - before) / count
            metrics |= _cancel_and_list(broker.address)
        broker.kill()
        for how in ("kill -9", "clean stop"):
            with run.measuring("quiver", "delays", detail=f"{count} pending, start-up after {how}") as metrics:
                broker.start()
                metrics["ready_s"] = broker.start_seconds
            broker.stop()
        broker.start()
        for rate in DUE_RATES:
            _lateness(run, broker, max(10, int(rate * min(1.0, run.scale.share * 10))), rate)
    finally:
        broker.discard()


def _schedule(address: str, count: int, watch: Watch) -> None:
    """Due within a day from an hour on, a hundred times: each chunk has a time of its own."""
    values = bodies(SIZE, CHUNK)
    with quiver.connect(address) as client, client.producer("pending") as producer:
        watch.start()
        for start in range(0, count, CHUNK):
            minutes = 60 + start // CHUNK * 7 % 1_440
            producer.send_many(values[: count - start], delay=f"{minutes}m")
        producer.flush()
        watch.stop()


def _cancel_and_list(address: str) -> dict[str, float]:
    cancels: list[float] = []
    lists: list[float] = []
    with quiver.connect(address) as client:
        for number in range(PROBES):
            begin = time.monotonic()
            page = client.delayed.list("pending", limit=100, skip=number * 37)
            lists.append(time.monotonic() - begin)
            begin = time.monotonic()
            client.delayed.cancel("pending", page[0].partition, page[0].id)
            cancels.append(time.monotonic() - begin)
    return latency_metrics("cancel", cancels) | latency_metrics("list", lists)


def _lateness(run: Run, broker: Broker, rate: int, full_rate: int) -> None:
    """With the million pending behind them, messages fall due at a steady rate; a reader sees when each one comes."""
    topic, count = f"due-{full_rate}", rate * DUE_SECONDS
    with quiver.connect(broker.address) as client:
        client.topics.create(topic, partitions=PARTITIONS)
    with run.measuring(
        "quiver",
        "delays",
        size=SIZE,
        durability="fsync",
        detail=f"{full_rate} a second fall due",
        server_pids=[broker.pid],
    ) as metrics:
        roles = {
            "schedule": Role(_schedule_steadily, (broker.address, topic, rate)),
            "read": Role(_read_due, (broker.address, topic, count)),
        }
        outcomes = run_roles(roles)
        late = sorted(outcomes["read"].result)
        if late[0] < 0:
            raise RuntimeError(f"a message came {-late[0] * 1000:.1f} ms before its time")
        metrics |= latency_metrics("late", late)
        metrics["late_max_ms"] = late[-1] * 1000


def _schedule_steadily(address: str, topic: str, rate: int, watch: Watch) -> None:
    """All are scheduled before the first is due."""
    pool = endless_bodies(SIZE - 14)
    with quiver.connect(address) as client, client.producer(topic) as producer:
        watch.start()
        first_ms = int(time.time() * 1000) + LEAD_SECONDS * 1000
        for number in range(rate * DUE_SECONDS):
            due_ms = first_ms + number * 1000 // rate
            producer.send(b"%013d " % due_ms + next(pool), deliver_at=due_ms)
        producer.flush()
        watch.stop()


def _read_due(address: str, topic: str, count: int, watch: Watch) -> list[float]:
    late: list[float] = []
    with quiver.connect(address) as client, client.read(topic) as reader:
        watch.start()
        for message in reader:
            late.append(time.time() - int(bytes(message.value or b"")[:13]) / 1000)
            if len(late) == count:
                break
        watch.stop()
    return late
