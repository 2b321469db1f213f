"""Commits a second: members of a group, with a connection and a partition each, commit every message they read.

Members stay until all are done, so that no partition moves while the time runs.
"""

import asyncio
import contextlib
import multiprocessing
import time
from typing import Any

import quiver
from benchmarks.percentiles import latency_metrics
from benchmarks.roles import Role, Watch, run_roles, span
from benchmarks.run import Run
from benchmarks.servers.broker import Broker

TOPIC = "group-commits"
PROCESSES, MEMBERS_EACH = 2, 32
FULL_COMMITS = 50_000
ALL_DONE_SECONDS = 100.0


def measure_group_commits(run: Run) -> None:
    each = max(10, run.scale.count(FULL_COMMITS) // (PROCESSES * MEMBERS_EACH))
    with Broker(run.scratch / "group-commits") as broker:
        with quiver.connect(broker.address) as client:
            client.topics.create(TOPIC, partitions=PROCESSES * MEMBERS_EACH, durability="interval")
            with client.producer(TOPIC) as producer:
                for partition in range(PROCESSES * MEMBERS_EACH):
                    producer.send_many([b"message"] * each, partition=partition)
        for number in run.repetitions():
            _measure(run, broker, f"group-{number}", each)


def _measure(run: Run, broker: Broker, group: str, each: int) -> None:
    with run.measuring(
        "quiver",
        "group-commits",
        durability="fsync",
        detail=f"{PROCESSES * MEMBERS_EACH} members, a partition each",
        server_pids=[broker.pid],
    ) as metrics:
        all_done = multiprocessing.get_context("spawn").Barrier(PROCESSES)
        roles = {f"commit {n}": Role(_commit, (broker.address, group, each, all_done)) for n in range(PROCESSES)}
        outcomes = run_roles(roles)
        took = [seconds for outcome in outcomes.values() for seconds in outcome.result]
        metrics["rate"] = len(took) / span(outcomes)
        metrics |= latency_metrics("commit", took)


def _commit(address: str, group: str, each: int, all_done: Any, watch: Watch) -> list[float]:
    return asyncio.run(_commit_all(address, group, each, all_done, watch))


async def _commit_all(address: str, group: str, each: int, all_done: Any, watch: Watch) -> list[float]:
    async with contextlib.AsyncExitStack() as stack:
        streams = []
        for _ in range(MEMBERS_EACH):
            client = await stack.enter_async_context(quiver.connect_async(address))
            streams.append(await stack.enter_async_context(client.stream(TOPIC, group=group, auto_commit=False)))
        while any(len(stream.assignment) != 1 for stream in streams):
            await asyncio.sleep(0.01)
        watch.start()
        took = await asyncio.gather(*(_commit_each(stream, each) for stream in streams))
        watch.stop()
        await asyncio.to_thread(all_done.wait, ALL_DONE_SECONDS)
        if any(len(stream.assignment) != 1 for stream in streams):
            raise RuntimeError("partitions moved while the time ran")
        await asyncio.to_thread(all_done.wait, ALL_DONE_SECONDS)
    return [seconds for of_member in took for seconds in of_member]


async def _commit_each(stream: Any, count: int) -> list[float]:
    took: list[float] = []
    async for message in stream:
        begin = time.monotonic()
        await message.commit()
        took.append(time.monotonic() - begin)
        if len(took) == count:
            break
    return took
