"""From a message in hand to its ack on disk, at 1,000 messages a second, beside the disk's own syncs."""

import time

import quiver
from benchmarks.machine.limits import synced_write
from benchmarks.payload import age_seconds, endless_bodies, paced, stamped
from benchmarks.percentiles import latency_metrics
from benchmarks.roles import Role, Watch, run_roles
from benchmarks.run import Run
from benchmarks.servers.broker import Broker

RATE = 1_000.0
WARM_UP = 200
SIZE, ACK_BYTES = 100, 512


def measure_queue_latency(run: Run) -> None:
    count = run.scale.latency_messages + WARM_UP
    with Broker(run.scratch / "queue-latency") as broker:
        for number in run.repetitions():
            topic = f"latency-{number}"
            with quiver.connect(broker.address) as client:
                client.topics.create(topic, partitions=1, durability="interval")
            with run.measuring("machine", "queue-latency", detail="paced fdatasync, 1,000 a second") as metrics:
                path = run.scratch / "paced.bin"
                metrics |= synced_write(path, run.scale.latency_messages, ACK_BYTES, rate=RATE)
                path.unlink()
            with run.measuring(
                "quiver",
                "queue-latency",
                size=SIZE,
                durability="fsync",
                detail="receive to ack, 1,000 a second",
                server_pids=[broker.pid],
            ) as metrics:
                outcomes = run_roles(
                    {
                        "work": Role(_work, (broker.address, topic, count)),
                        "publish": Role(_publish, (broker.address, topic, count)),
                    }
                )
                acks, ages = outcomes["work"].result
                metrics |= latency_metrics("ack", acks[WARM_UP:])
                metrics |= latency_metrics("receive", ages[WARM_UP:])


def _publish(address: str, topic: str, count: int, watch: Watch) -> None:
    pool = endless_bodies(SIZE)
    with quiver.connect(address) as client, client.producer(topic, linger=0) as producer:
        watch.start()
        for _ in paced(count, RATE):
            producer.send(stamped(next(pool)))


def _work(address: str, topic: str, count: int, watch: Watch) -> tuple[list[float], list[float]]:
    """Seconds from receive to ack, and from publish to receive, of each message."""
    acks: list[float] = []
    ages: list[float] = []
    with quiver.connect(address) as client, client.work(topic, group="latency") as work:
        watch.start()
        for job in work:
            begin = time.monotonic()
            ages.append(age_seconds(job.value or b""))
            job.ack()
            acks.append(time.monotonic() - begin)
            if len(acks) == count:
                break
        watch.stop()
    return acks, ages
