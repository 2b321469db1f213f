"""Publishing in transactions against plain publishing, and a commit against syncing as many files as partitions.

A commit over one partition shows what of it does not depend on their number.
"""

import os
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import quiver
from benchmarks.payload import bodies
from benchmarks.percentiles import latency_metrics
from benchmarks.roles import Role, Watch, run_roles, span
from benchmarks.run import Run
from benchmarks.servers.broker import Broker

SIZE = 100
FULL_MESSAGES = 6_000_000
PRODUCERS = 8
COMMIT_PARTITIONS = (10, 1)
WARM_UP = 20
RAW_BYTES = 512


def measure_transactions(run: Run) -> None:
    count = run.scale.count(FULL_MESSAGES)
    with Broker(run.scratch / "transactions") as broker:
        for number in run.repetitions():
            _measure(run, broker, f"plain-{number}", "plain, 1 producer", 1, count, 0)
            _measure(run, broker, f"small-{number}", "1,000 messages a transaction, 1 producer", 1, count // 4, 1_000)
            _measure(run, broker, f"large-{number}", "20,000 messages a transaction, 1 producer", 1, count, 20_000)
            many = f"1,000 messages a transaction, {PRODUCERS} producers"
            _measure(run, broker, f"many-{number}", many, PRODUCERS, count // 2, 1_000)
            for partitions in COMMIT_PARTITIONS:
                _measure_commits(run, broker, f"commits-{partitions}-{number}", partitions)


def _measure(run: Run, broker: Broker, topic: str, detail: str, producers: int, count: int, size: int) -> None:
    _make(broker, topic, producers)
    each = max(count // producers, size)
    with run.measuring(
        "quiver", "transactions", size=SIZE, durability="fsync", detail=detail, server_pids=[broker.pid]
    ) as metrics:
        outcomes = run_roles(
            {
                f"producer {number}": Role(_publish, (broker.address, topic, number, each, size))
                for number in range(producers)
            },
            timeout=600,
        )
        metrics["rate"] = sum(outcome.result for outcome in outcomes.values()) / span(outcomes)
    with quiver.connect(broker.address) as client:
        client.topics.delete(topic)


def _measure_commits(run: Run, broker: Broker, topic: str, partitions: int) -> None:
    """A commit, as many syncs at once as partitions and one sync take turns, so that all see the same disk."""
    _make(broker, topic, partitions)
    count = max(100, run.scale.latency_messages // 10)
    over = f"{partitions} partitions" if partitions > 1 else "1 partition"
    with run.measuring("quiver", "transactions", durability="fsync", detail=f"commit over {over}") as metrics:
        commits, raw, one = run_roles(
            {"commit": Role(_commit, (broker.address, topic, partitions, run.scratch, count))}, timeout=600
        )["commit"].result
        metrics |= latency_metrics("commit", commits)
        metrics |= latency_metrics("raw", raw)
        metrics |= latency_metrics("one_sync", one)


def _make(broker: Broker, topic: str, partitions: int) -> None:
    with quiver.connect(broker.address) as client:
        client.topics.create(topic, partitions=partitions)


def _publish(address: str, topic: str, number: int, count: int, size: int, watch: Watch) -> int:
    """In transactions of `size` messages, or without (0). Returns how many messages."""
    values = bodies(SIZE, size or 20_000)
    sent = 0
    with quiver.connect(address) as client:
        with client.transaction(f"producer-{number}") as tx:
            tx.publish(topic, b"the first", partition=number)
        watch.start()
        if size:
            while sent < count:
                with client.transaction(f"producer-{number}") as tx:
                    tx.send_many(topic, values, partition=number)
                sent += size
        else:
            with client.producer(topic) as producer:
                while sent < count:
                    producer.send_many(values, partition=number)
                    sent += len(values)
        watch.stop()
    return sent


def _commit(
    address: str, topic: str, partitions: int, scratch: Path, count: int, watch: Watch
) -> tuple[list[float], ...]:
    """Seconds of each commit, of syncing as many files at once, and of syncing one."""
    commits: list[float] = []
    raw: list[float] = []
    one: list[float] = []
    files = [os.open(scratch / f"raw-{number}.bin", os.O_CREAT | os.O_WRONLY) for number in range(partitions)]
    with quiver.connect(address) as client, ThreadPoolExecutor(partitions) as pool:
        watch.start()
        for _ in range(count + WARM_UP):
            begin = 0.0
            with client.transaction("commits") as tx:
                for partition in range(partitions):
                    tx.publish(topic, b"x" * SIZE, partition=partition)
                tx.flush()
                begin = time.monotonic()
            commits.append(time.monotonic() - begin)
            begin = time.monotonic()
            list(pool.map(_sync, files))
            raw.append(time.monotonic() - begin)
            begin = time.monotonic()
            _sync(files[0])
            one.append(time.monotonic() - begin)
        watch.stop()
    for file in files:
        os.close(file)
    return commits[WARM_UP:], raw[WARM_UP:], one[WARM_UP:]


def _sync(file: int) -> None:
    os.write(file, bytes(RAW_BYTES))
    os.fdatasync(file)
