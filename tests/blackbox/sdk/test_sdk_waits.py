"""Clients that wait: as long as they were told to, and saying what they wait for."""

import logging
import re
import signal
import subprocess
import threading
from collections.abc import Callable, Iterator

import pytest

import quiver
from blackbox.processes.broker_process import QUIVER, BrokerProcess, free_port, wait_until
from quiver.model.errors import ConnectionLost, MessageTimeout, QuiverError, RequestTimeout

LONG = "1h"
SHORT = 1.0
"""Long enough to be connected, also on a busy machine."""


def outcome(call: Callable[[], object]) -> object:
    """What a call returns or raises; a call that goes on and on fails the test."""
    found: list[object] = []

    def run() -> None:
        try:
            found.append(call())
        except QuiverError as error:
            found.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(30)
    assert found, "it still waits"
    return found[0]


@pytest.fixture
def fixed_broker(start_broker: Callable[..., BrokerProcess]) -> BrokerProcess:
    """On a port that it keeps when it is started again."""
    return start_broker("--native-port", str(free_port()))


@pytest.fixture(params=["read", "read batches", "stream", "stream batches", "work", "work batches"])
def waiting(request: pytest.FixtureRequest) -> Callable[[quiver.Client], Iterator[object]]:
    kind, _, batches = request.param.partition(" ")

    def open_one(q: quiver.Client) -> Iterator[object]:
        if kind == "read":
            source = q.read("quiet", timeout="1000ms")
        elif kind == "stream":
            source = q.stream("quiet", group="streamers", timeout=SHORT)
        else:
            source = q.work("quiet", group="workers", timeout=SHORT)
        return iter(source.batches() if batches else source)

    return open_one


def test_a_wait_ends_and_can_begin_again(broker: BrokerProcess, waiting):
    with quiver.connect(broker.address, timeout=LONG) as q:
        q.topics.create("quiet", partitions=1)
        messages = waiting(q)
        for _ in range(2):
            with pytest.raises(MessageTimeout, match=r"^no message came within 1 s$"):
                next(messages)
        q.publish("quiet", b"at last")
        found = next(messages)
        assert getattr(found, "value", b"at last") == b"at last"


def test_a_wait_for_a_dead_broker_ends_too(fixed_broker: BrokerProcess, waiting, caplog):
    broker = fixed_broker
    with quiver.connect(broker.address, timeout=LONG) as q:
        q.topics.create("quiet", partitions=1)
        q.publish("quiet", b"first")
        messages = waiting(q)
        next(messages)
        broker.kill()
        error = outcome(lambda: next(messages))
        while isinstance(error, MessageTimeout) and "no connection" not in error.message:
            error = outcome(lambda: next(messages))  # the connection broke only after the wait had begun
        assert isinstance(error, MessageTimeout)
        assert f"no connection to {broker.address}" in error.message
        broker.start()
    assert any(re.search(r"no connection .*attempt \d+.*next in", line) for line in caplog.messages)


def test_next_job_has_a_timeout_of_its_own(broker: BrokerProcess):
    with quiver.connect(broker.address, timeout=LONG) as q:
        q.topics.create("quiet", partitions=1)
        with q.work("quiet", group="g") as jobs:
            for wait in (jobs.next_job, jobs.next_batch):
                error = outcome(lambda wait=wait: wait(timeout="50ms"))
                assert isinstance(error, MessageTimeout)
            holder = threading.Thread(target=jobs.next_job, daemon=True)  # waits without end, until the work closes
            holder.start()
            assert isinstance(outcome(lambda: jobs.next_job(timeout=0.2)), MessageTimeout)
        holder.join(30)
        assert not holder.is_alive()


@pytest.mark.parametrize("end", ["kill", "stop"])
def test_publish_keeps_to_its_timeout(fixed_broker: BrokerProcess, end: str):
    broker = fixed_broker
    with quiver.connect(broker.address, timeout=LONG) as q:
        for topic in ("used", "unused"):
            q.topics.create(topic, partitions=1)
        q.publish("used", b"x")
        if end == "kill":
            broker.kill()
        else:
            broker.send_signal(signal.SIGSTOP)
        try:
            for topic in ("used", "unused", "used"):
                error = outcome(lambda topic=topic: q.publish(topic, b"late", timeout=0.5))
                assert isinstance(error, RequestTimeout | ConnectionLost)
        finally:
            if end == "kill":
                broker.start()
            else:
                broker.send_signal(signal.SIGCONT)


async def test_the_asynchronous_twin(broker: BrokerProcess):
    async with quiver.connect_async(broker.address, timeout=LONG) as q:
        await q.topics.create("quiet", partitions=1)
        reader = aiter(q.read("quiet", timeout=SHORT))
        stream = aiter(q.stream("quiet", group="s", timeout=SHORT))
        work = aiter(q.work("quiet", group="w", timeout=SHORT))
        for each in (reader, stream, work):
            with pytest.raises(MessageTimeout):
                await anext(each)
        await q.publish("quiet", b"at last", timeout=10)
        for each in (reader, stream, work):
            assert (await anext(each)).value == b"at last"


def test_an_outage_is_told_from_beginning_to_end(start_broker: Callable[..., BrokerProcess], caplog):
    caplog.set_level(logging.INFO, "quiver")
    port = str(free_port())
    broker = start_broker("--native-port", port)
    with quiver.connect(broker.address) as q:
        assert f"connected to {broker.address}" in caplog.messages
        q.topics.create("orders", partitions=1)
        q.publish("orders", b"one")
        with q.stream("orders", group="billing", auto_commit=False) as messages:
            received = iter(messages)
            assert next(received).value == b"one"
            caplog.clear()
            broker.kill()
            later: list[quiver.Message] = []
            reading = threading.Thread(target=lambda: later.append(next(received)))
            reading.start()
            wait_until(lambda: any("attempt" in line for line in caplog.messages), 20, "a line about the outage")
            broker.start()
            q.publish("orders", b"two")
            reading.join(60)
        assert later[0].value == b"two"
    lines = caplog.messages
    assert any(re.match(rf"connected to {broker.address} again, after", line) for line in lines)
    assert len([line for line in lines if "attempt" in line]) < 40


def test_a_group_and_its_jobs_are_told(broker: BrokerProcess, caplog):
    caplog.set_level(logging.INFO, "quiver")
    with quiver.connect(broker.address) as q:
        q.topics.create("orders", partitions=2, max_attempts=2, backoff="10ms")
        q.publish("orders", b"bad", partition=0)
        with q.stream("orders", group="billing") as messages:
            next(iter(messages))
        with q.work("orders", group="packers") as jobs:
            for _ in range(2):
                job = jobs.next_job()
                assert job is not None
                job.nack(error="no box")
            q.publish("orders", b"worse", partition=1)
            job = jobs.next_job()
            assert job is not None
            job.reject("not an order")
    told = "\n".join(caplog.messages)
    for line in (
        r"group billing: joined as \S+, generation \d+",
        r"group billing: reads orders-0, orders-1",
        r"group packers: works on orders",
        r"orders-0 offset 0: attempt 1 failed, the next is at 20\S+Z: no box",
        r"orders-0 offset 0: attempt 2 failed, it was the last: no box",
        r"orders-1 offset 0: rejected: not an order",
    ):
        assert re.search(line, told), told


def test_produce_waits_for_a_broker_that_comes_up(start_broker: Callable[..., BrokerProcess]):
    port = str(free_port())
    command = [str(QUIVER), "produce", "orders", "early", "--timeout", "60s", "-a", f"127.0.0.1:{port}"]
    early = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert early.stderr is not None
    first = early.stderr.readline().decode()
    assert first.startswith(f"quiver: no connection to 127.0.0.1:{port}: "), first
    broker = start_broker("--native-port", port, "--auto-create")
    try:
        out, _ = early.communicate(timeout=60)
    finally:
        early.kill()
    assert early.returncode == 0
    assert b"orders" in out
    with quiver.connect(broker.address) as q:
        assert [message.value for message in q.read("orders", end="latest")] == [b"early"]
