"""Publish to ack when every partition of a topic with many is written at the same moment, a message each."""

import asyncio
import time

import quiver
from benchmarks.payload import endless_bodies
from benchmarks.percentiles import latency_metrics
from benchmarks.roles import Role, Watch, run_roles
from benchmarks.run import Run
from benchmarks.servers.broker import Broker

MESSAGE_BYTES = 100
FULL_ROUNDS = 20


def measure_partitions_at_once(run: Run) -> None:
    with Broker(run.scratch / "at-once") as broker:
        for durability in ("fsync", "interval"):
            with quiver.connect(broker.address) as client:
                client.topics.create(durability, partitions=run.scale.many_partitions, durability=durability)
            for _ in run.repetitions():
                _measure(run, broker, durability)


def _measure(run: Run, broker: Broker, durability: str) -> None:
    partitions = run.scale.many_partitions
    rounds = max(3, int(FULL_ROUNDS * run.scale.share))
    with run.measuring(
        "quiver",
        "partitions-at-once",
        size=MESSAGE_BYTES,
        durability=durability,
        detail=f"{partitions} partitions",
        server_pids=[broker.pid],
    ) as metrics:
        outcome = run_roles({"publish": Role(_publish, (broker.address, durability, partitions, rounds))})["publish"]
        metrics["rate"] = len(outcome.result) / outcome.seconds
        metrics |= latency_metrics("ack", outcome.result)


def _publish(address: str, topic: str, partitions: int, rounds: int, watch: Watch) -> list[float]:
    return asyncio.run(_publish_rounds(address, topic, partitions, rounds, watch))


async def _publish_rounds(address: str, topic: str, partitions: int, rounds: int, watch: Watch) -> list[float]:
    pool = endless_bodies(MESSAGE_BYTES)
    async with quiver.connect_async(address) as client:

        async def publish(partition: int) -> float:
            begin = time.monotonic()
            await client.publish(topic, next(pool), partition=partition)
            return time.monotonic() - begin

        await publish(0)
        took: list[float] = []
        watch.start()
        for _ in range(rounds):
            took += await asyncio.gather(*(publish(partition) for partition in range(partitions)))
        watch.stop()
        return took
