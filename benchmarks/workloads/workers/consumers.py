"""Work per message: 4 consumers on 16 partitions, each a process of its own, that handle one message after the other.

In one variant the ack of a message is sent with those of the next ones, as `with job` does; in the other the consumer
waits for each ack before it takes the next message, as a handler with effects of its own does.
"""

import multiprocessing
import threading
import time
from typing import Any, Literal

import quiver
from benchmarks.payload import bodies
from benchmarks.roles import Role, Watch, run_roles, span
from benchmarks.run import Run
from benchmarks.servers.broker import Broker
from benchmarks.servers.server import cpu_seconds

Acks = Literal["gathered", "awaited"]
CONSUMERS, PARTITIONS, SIZE = 4, 16, 100
FULL_MESSAGES: dict[Acks, int] = {"gathered": 1_000_000, "awaited": 30_000}
GROUP = "bench"
_LOOK_SECONDS = 0.01


def measure_consumers(run: Run, broker: Broker, workers: int, number: int) -> None:
    for acks, full in FULL_MESSAGES.items():
        count, topic = run.scale.count(full) // PARTITIONS * PARTITIONS, f"work-{acks}-{number}"
        _fill(broker, topic, count)
        with run.measuring(
            "quiver",
            "workers",
            size=SIZE,
            durability="fsync",
            detail=f"work, acks {acks}, {CONSUMERS} consumers, {PARTITIONS} partitions, {workers} workers",
            server_pids=[broker.pid],
        ) as metrics:
            before = cpu_seconds([broker.pid])
            taken = multiprocessing.get_context("spawn").Value("q", 0)
            role = Role(_work, (broker.address, topic, count, taken, acks))
            outcomes = run_roles({f"consumer {place}": role for place in range(CONSUMERS)})
            metrics["rate"] = count / span(outcomes)
            metrics["broker_us_per_message"] = (cpu_seconds([broker.pid]) - before) / count * 1e6
            clients = sum(outcome.cpu_seconds for outcome in outcomes.values())
            metrics["client_us_per_message"] = clients / count * 1e6
        _check(broker, topic, sum(outcome.result for outcome in outcomes.values()), count)


def _fill(broker: Broker, topic: str, count: int) -> None:
    with quiver.connect(broker.address) as client:
        client.topics.create(topic, partitions=PARTITIONS)
        with client.producer(topic) as producer:
            for partition in range(PARTITIONS):
                producer.send_many(bodies(SIZE, count // PARTITIONS), partition=partition)


def _work(address: str, topic: str, count: int, taken: Any, acks: Acks, watch: Watch) -> int:
    own = [0]
    with quiver.connect(address) as client:
        work = client.work(topic, group=GROUP)
        work.open()
        watch.start()
        threading.Thread(target=_stop_at, args=(work, own, taken, count), daemon=True).start()
        if acks == "gathered":
            for job in work:
                with job:
                    own[0] += job.value is not None
        else:
            for job in work:
                job.ack()
                own[0] += 1
        work.close()
        watch.stop()
    return own[0]


def _stop_at(work: Any, own: list[int], taken: Any, count: int) -> None:
    """Adds up what all consumers have handled, and stops this one when nothing is left."""
    reported = 0
    while taken.value < count:
        time.sleep(_LOOK_SECONDS)
        if own[0] > reported:
            with taken.get_lock():
                taken.value += own[0] - reported
            reported = own[0]
    work.stop()


def _check(broker: Broker, topic: str, received: int, count: int) -> None:
    with quiver.connect(broker.address) as client:
        depth = client.queues.depth(topic, GROUP)
    if received != count or depth.ready or depth.leased or depth.retrying:
        raise RuntimeError(f"{received} of {count} messages were received; {depth}")
