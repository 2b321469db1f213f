"""A user's program, for mypy: what it says about types is true, and the lines marked with an error have one."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import assert_type

import quiver


@dataclass
class Order:
    id: int


def administer(q: quiver.Client) -> None:
    q.topics.create("orders", partitions=6, retention=timedelta(days=7), segment_bytes="1MiB", durability="fsync")
    q.topics.create(
        "orders", retention=None, cleanup="compact,delete", visibility="30s", priority_weights=[5, 4, 3, 2, 1]
    )
    q.topics.alter("orders", ttl=3600, max_message_bytes=None)
    q.topics.create("orders", partitions="six")  # type: ignore[arg-type]
    q.topics.create("orders", durability="often")  # type: ignore[arg-type]
    q.topics.create("orders", retntion="7d")  # type: ignore[call-arg]
    q.groups.alter("billing", visibility=timedelta(minutes=1))


def publish(q: quiver.Client) -> None:
    place = q.publish("orders", Order(1), priority="high", delay=timedelta(minutes=5), timeout="3s")
    assert_type(place, quiver.Published)
    q.publish("orders", b"", priority=1, deliver_at=datetime(2026, 1, 31), ttl=60)
    q.publish("orders", b"", priority="urgent")  # type: ignore[arg-type]
    q.publish("orders", b"", priority=7)  # type: ignore[arg-type]


def read(q: quiver.Client) -> None:
    for message in q.read("orders", end="latest", max_wait=timedelta(seconds=1), max_bytes="1MiB"):
        assert_type(message.json(type=Order), Order)
        assert_type(message.json(list[Order]), list[Order])


def work(q: quiver.Client) -> None:
    @q.worker("emails", group="senders", concurrency=8)
    def send(job: quiver.Job) -> int:
        return job.json(type=Order).id

    def check(job: quiver.Job) -> None:
        assert_type(send(job), int)
        send("no job")  # type: ignore[arg-type]

    print(check)


async def use() -> None:
    q = await quiver.connect_async("localhost:7481", timeout=timedelta(seconds=3))
    assert_type(q, quiver.AsyncClient)
    async with quiver.open_async(":memory:") as inside:
        assert_type(inside, quiver.AsyncClient)

    @q.worker("emails", group="senders")
    async def send(job: quiver.AsyncJob) -> int:
        await job.extend(timedelta(minutes=1))
        return job.json(type=Order).id

    print(send)
