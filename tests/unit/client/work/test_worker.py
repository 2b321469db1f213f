"""Handlers that are called with jobs: fates, concurrency, order of keys, draining."""

import asyncio
import logging
import threading
from collections.abc import Callable
from typing import Any

import pytest

import quiver
from quiver.client import AsyncJob, Client, Job
from quiver.model.errors import InvalidRequest, QuiverError
from quiver.protocol.messages import Failure
from quiver.protocol.queue_messages import Receive
from unit.client.fake_queue_broker import FakeQueueBroker

SECONDS = 10.0


def running(q: Client) -> threading.Thread:
    thread = threading.Thread(target=q.run_workers)
    thread.start()
    return thread


def drained(q: Client, thread: threading.Thread) -> None:
    q.stop_workers()
    thread.join(SECONDS)
    assert not thread.is_alive()


def until(check: Callable[[], Any]) -> None:
    gate = threading.Event()
    for _ in range(int(SECONDS / 0.005)):
        if check():
            return
        gate.wait(0.005)
    raise AssertionError("it did not happen")


def test_returning_acks_raising_gives_back_and_reject_gives_up(
    broker: FakeQueueBroker, q: Client, caplog: pytest.LogCaptureFixture
):
    @q.worker("jobs", group="g")
    def handle(job: Job) -> None:
        if job.value == b"fail":
            raise ValueError("broken")
        if job.value == b"never":
            raise quiver.Reject("bad")

    broker.add(b"ok", b"fail", b"never", b"ok")
    with caplog.at_level(logging.WARNING, "quiver.worker"):
        thread = running(q)
        until(
            lambda: (
                q.worker_counters.processed == 2 and q.worker_counters.failed == 1 and q.worker_counters.rejected == 1
            )
        )
        drained(q, thread)
    assert broker.state_of("done") == [b"ok", b"ok"]
    assert broker.state_of("later") == [b"fail"]
    assert broker.messages[1].error == "ValueError: broken"
    assert broker.state_of("dead") == [b"never"]
    assert "jobs-0 offset 1" in caplog.text
    assert handle is not None


def test_as_many_run_at_a_time_as_were_asked_for_and_a_drain_waits_for_them(broker: FakeQueueBroker, q: Client):
    gate, entered = threading.Event(), threading.Semaphore(0)

    @q.worker("jobs", group="g", concurrency=3)
    def handle(job: Job) -> None:
        entered.release()
        assert gate.wait(SECONDS)

    broker.add(*[b"%d" % n for n in range(5)])
    thread = running(q)
    for _ in range(3):
        assert entered.acquire(timeout=SECONDS)
    assert q.worker_counters.in_flight == 3
    assert not entered.acquire(blocking=False)
    q.stop_workers()
    until(lambda: not q._workers._over.is_set)
    gate.set()
    thread.join(SECONDS)
    assert broker.state_of("done") == [b"0", b"1", b"2"]
    assert broker.state_of("ready") == [b"3", b"4"]
    assert [message.attempt for message in broker.messages] == [1, 1, 1, 0, 0]


def test_order_inside_keys_holds_with_concurrency():
    with FakeQueueBroker(ordering="key") as broker, quiver.connect(broker.address) as q:
        seen: dict[bytes | None, list[int]] = {}
        busy: set[bytes | None] = set()
        clashes: list[bytes | None] = []

        @q.worker("jobs", group="g", concurrency=4, prefetch=100)
        def handle(job: Job) -> None:
            if job.key in busy:
                clashes.append(job.key)
            busy.add(job.key)
            threading.Event().wait(0.0005)
            seen.setdefault(job.key, []).append(job.offset)
            busy.discard(job.key)

        broker.add(*[b"%d" % n for n in range(200)], keys=[b"k%d" % (n % 5) for n in range(200)])
        thread = running(q)
        until(lambda: q.worker_counters.processed == 200)
        drained(q, thread)
        assert clashes == []
        assert all(offsets == sorted(offsets) for offsets in seen.values())
        assert len(broker.state_of("done")) == 200


def test_a_failing_key_holds_up_itself_alone():
    with FakeQueueBroker(ordering="key") as broker, quiver.connect(broker.address) as q:
        handled: list[bytes | None] = []

        @q.worker("jobs", group="g", concurrency=2, prefetch=100)
        def handle(job: Job) -> None:
            handled.append(job.value)
            if job.value == b"a0":
                raise ValueError

        keys = [b"a", b"b"] * 10
        broker.add(*[b"%s%d" % (key, n // 2) for n, key in enumerate(keys)], keys=keys)
        broker.messages[0].state = "ready"
        thread = running(q)
        until(lambda: len(broker.state_of("later")) == 1 and q.worker_counters.processed >= 10)
        drained(q, thread)
        assert handled.count(b"a0") == 1
        assert [value for value in handled if value.startswith(b"b")] == [b"b%d" % n for n in range(10)]


def test_an_error_of_the_group_ends_the_run(broker: FakeQueueBroker, q: Client):
    refusal = Failure("group_kind_mismatch", "group 'g' is a stream group", False)
    broker.fault = lambda request: refusal if isinstance(request, Receive) else None
    q.worker("jobs", group="g")(print)
    with pytest.raises(QuiverError, match="stream group"):
        q.run_workers()


def test_without_workers_there_is_nothing_to_run(q: Client):
    with pytest.raises(InvalidRequest, match="worker"):
        q.run_workers()


def test_a_handler_must_fit_its_client(q: Client):
    async def handle(job: AsyncJob) -> None: ...

    with pytest.raises(InvalidRequest, match="connect_async"):
        q.worker("jobs", group="g")(handle)
    with pytest.raises(InvalidRequest, match="called"):
        q.worker("jobs", group="g")("handle")  # type: ignore[arg-type]


async def test_asynchronous_handlers_run_at_the_same_time(broker: FakeQueueBroker):
    async with quiver.connect_async(broker.address) as q:
        everybody = asyncio.Barrier(3)

        @q.worker("jobs", group="g", concurrency=3)
        async def handle(job: AsyncJob) -> None:
            await everybody.wait()

        broker.add(*[b"%d" % n for n in range(6)])
        run = asyncio.create_task(q.run_workers())
        async with asyncio.timeout(SECONDS):
            while q.worker_counters.processed < 6:
                await asyncio.sleep(0)
            q.stop_workers()
            await run
    assert len(broker.state_of("done")) == 6


async def test_a_cancelled_run_drains(broker: FakeQueueBroker):
    async with quiver.connect_async(broker.address) as q:
        begun, gate = asyncio.Event(), asyncio.Event()

        @q.worker("jobs", group="g")
        async def handle(job: AsyncJob) -> None:
            begun.set()
            await gate.wait()

        broker.add(b"a", b"b")
        run = asyncio.create_task(q.run_workers())
        async with asyncio.timeout(SECONDS):
            await begun.wait()
            run.cancel()
            gate.set()
            with pytest.raises(asyncio.CancelledError):
                await run
    assert broker.state_of("done") == [b"a"]
    assert broker.state_of("ready") == [b"b"]


async def test_the_asynchronous_loop(broker: FakeQueueBroker):
    broker.add(*[b"%d" % n for n in range(20)])
    async with quiver.connect_async(broker.address) as q, q.work("jobs", group="g") as work:
        count = 0
        async for job in work:
            async with job:
                count += 1
            if count == 10:
                break
        async for batch in work.batches():
            async with batch:
                count += len(batch)
            if count == 20:
                break
        await asyncio.sleep(0)
    assert len(broker.state_of("done")) == 20


async def test_asynchronous_fates(broker: FakeQueueBroker):
    broker.add(b"a", b"b", b"c", b"d")
    async with quiver.connect_async(broker.address) as q, q.work("jobs", group="g") as work:
        jobs = [await work.next_job() for _ in range(4)]
        await jobs[0].ack()
        await jobs[1].nack(delay=1)
        await jobs[2].reject("bad")
        assert await jobs[3].extend(60) > 0
        with pytest.raises(asyncio.CancelledError):
            async with jobs[3]:
                raise asyncio.CancelledError
    assert [message.state for message in broker.messages] == ["done", "later", "dead", "ready"]
