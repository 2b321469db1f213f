"""The classic drain: 100,000 messages wait in 10 partitions, and 10 consumers take and ack them, 10,000 at a time.

Each consumer is a process of its own. The time runs from the start of the first until the last ack is on disk.
"""

import multiprocessing
import threading
import time
from typing import Any

import quiver
from benchmarks.payload import bodies
from benchmarks.roles import Role, Watch, run_roles, span
from benchmarks.run import Run
from benchmarks.servers.broker import Broker

PARTITIONS, CONSUMERS, BATCH = 10, 10, 10_000
FULL_MESSAGES = 100_000
SIZE = 100


def measure_queue_drain(run: Run) -> None:
    count = run.scale.count(FULL_MESSAGES)
    with Broker(run.scratch / "queue-drain") as broker:
        for number in run.repetitions():
            topic = f"drain-{number}"
            _fill(broker, topic, count)
            with run.measuring(
                "quiver",
                "queue-drain",
                size=SIZE,
                durability="fsync",
                detail=f"{CONSUMERS} consumers, {PARTITIONS} partitions, {count} messages",
                server_pids=[broker.pid],
            ) as metrics:
                taken = multiprocessing.get_context("spawn").Value("q", 0)
                role = Role(_drain, (broker.address, topic, count, taken))
                outcomes = run_roles({f"drain {n}": role for n in range(CONSUMERS)})
                metrics["rate"] = count / span(outcomes)
            _check(broker, topic, sum(outcome.result for outcome in outcomes.values()), count)


def _fill(broker: Broker, topic: str, count: int) -> None:
    with quiver.connect(broker.address) as client:
        client.topics.create(topic, partitions=PARTITIONS, max_unacked=BATCH)
        with client.producer(topic) as producer:
            for partition in range(PARTITIONS):
                producer.send_many(bodies(SIZE, count // PARTITIONS), partition=partition)


def _drain(address: str, topic: str, count: int, taken: Any, watch: Watch) -> int:
    own = 0
    with quiver.connect(address) as client:
        work = client.work(topic, group="drain", max_messages=BATCH, prefetch=BATCH)
        work.open()
        watch.start()
        threading.Thread(target=_stop_at, args=(work, taken, count), daemon=True).start()
        for batch in work.batches():
            with batch:
                own += len(batch)
            with taken.get_lock():
                taken.value += len(batch)
        work.close()
        watch.stop()
    return own


def _stop_at(work: Any, taken: Any, count: int) -> None:
    while taken.value < count:
        time.sleep(0.001)
    work.stop()


def _check(broker: Broker, topic: str, received: int, count: int) -> None:
    with quiver.connect(broker.address) as client:
        depth = client.queues.depth(topic, "drain")
    if received != count or depth.ready or depth.leased or depth.retrying:
        raise RuntimeError(f"{received} of {count} messages were received; {depth}")
