"""The broker's resident size and start-up with thousands of groups: each has a member, and offsets in 10 partitions.

The members' sessions are longer than the benchmark, so that they are there after each start too.
"""

import asyncio
from typing import Any

import quiver
from benchmarks.roles import Role, Watch, run_roles
from benchmarks.run import Run
from benchmarks.servers.broker import Broker
from benchmarks.servers.server import resident_bytes

TOPIC = "many-groups"
PARTITIONS, FULL_GROUPS = 10, 10_000
AT_ONCE = 64


def measure_many_groups(run: Run) -> None:
    count = max(100, int(FULL_GROUPS * run.scale.share))
    size = f"{count} groups"
    broker = Broker(run.scratch / "many-groups").start()
    try:
        with quiver.connect(broker.address) as client:
            client.topics.create(TOPIC, partitions=PARTITIONS)
            for partition in range(PARTITIONS):
                client.publish(TOPIC, b"one", partition=partition)
        before = resident_bytes(broker.pid)
        with run.measuring("quiver", "many-groups", detail=f"{size}, made", server_pids=[broker.pid]) as metrics:
            made = run_roles({"make": Role(_make, (broker.address, count))}, timeout=300)["make"]
            metrics["rate"] = count / made.seconds
            metrics["growth_mb"] = (resident_bytes(broker.pid) - before) / 1e6
        broker.kill()
        _measure(run, broker, f"{size}, kill -9", count, before)
        for _ in run.repetitions():
            broker.stop()
            _measure(run, broker, f"{size}, clean stop", count, before)
    finally:
        broker.discard()


def _measure(run: Run, broker: Broker, detail: str, count: int, before: int) -> None:
    with run.measuring("quiver", "many-groups", detail=detail) as metrics:
        broker.start()
        metrics["ready_s"] = broker.start_seconds
        metrics["growth_mb"] = (resident_bytes(broker.pid) - before) / 1e6
    with quiver.connect(broker.address) as client:
        members = sum(group.members for group in client.groups.list())
        last = client.groups.describe(f"group-{count - 1}")
    if members != count or [part.committed for part in last.partitions] != [1] * PARTITIONS:
        raise RuntimeError(f"of {count} groups with a member each {members} members are there; {last}")


def _make(address: str, count: int, watch: Watch) -> None:
    asyncio.run(_make_all(address, count, watch))


async def _make_all(address: str, count: int, watch: Watch) -> None:
    numbers = iter(range(count))

    async def make_some(client: Any) -> None:
        for number in numbers:
            await _make_group(client, f"group-{number}")

    async with quiver.connect_async(address) as client:
        watch.start()
        await asyncio.gather(*(make_some(client) for _ in range(AT_ONCE)))
        watch.stop()


async def _make_group(client: Any, group: str) -> None:
    """A member with an instance id stays when its stream is closed; its last heartbeat waits at the broker."""
    options = {"instance_id": "only", "session_timeout": "1h", "heartbeat": "200ms"}
    async with client.stream(TOPIC, group=group, **options) as stream:
        for topic, partition in stream.assignment:
            stream.seek(topic, partition, 1)
        await stream.commit()
