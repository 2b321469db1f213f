"""Workers that are stopped for longer than clients wait, and workers that end at every start."""

import os
import signal
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

import quiver
from blackbox.processes.broker_process import BrokerProcess, free_port, is_alive, wait_until
from quiver.model.errors import ConnectionLost, QuiverError, RequestTimeout, WorkerUnavailable

WORKERS = 2
PARTITIONS = 4
TOPIC = "orders"
CLIENT_SECONDS = 1.0
MOST_STARTS = 50


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[BrokerProcess]:
    with BrokerProcess(tmp_path / "data", "--native-port", str(free_port()), "--workers", str(WORKERS)) as process:
        with quiver.connect(process.address) as q:
            q.topics.create(TOPIC, partitions=PARTITIONS, visibility="10m")
        yield process


def owners(broker: BrokerProcess) -> list[int]:
    found: list[int] = broker.request("GET", "/cluster?units=true")[1]["topics"][TOPIC]
    return found


def stored(broker: BrokerProcess) -> Counter[bytes | None]:
    with quiver.connect(broker.address) as q:
        return Counter(message.value for message in q.read(TOPIC, end="latest"))


@pytest.mark.parametrize("stopped", range(WORKERS))
def test_clients_that_have_given_up_a_stopped_worker_go_on(broker: BrokerProcess, stopped: int) -> None:
    """The worker runs again when every call has failed: what they had sent is still in its sockets."""
    of_partition, pid = owners(broker), broker.workers[stopped]["pid"]
    with quiver.connect(broker.address) as q, q.work(TOPIC, group="g", prefetch=0) as work:
        for partition in range(PARTITIONS):
            q.publish(TOPIC, b"first-%d" % partition, partition=partition, id=f"first-{partition}")
        held = [work.next_job(timeout=30) for _ in range(PARTITIONS)]
        os.kill(pid, signal.SIGSTOP)
        try:
            for partition, owner in enumerate(of_partition):
                is_given_up = late(q, partition, CLIENT_SECONDS if owner == stopped else 60) is not None
                assert is_given_up == (owner == stopped)
            for job in held:
                if of_partition[job.partition] != stopped:
                    job.ack()
        finally:
            os.kill(pid, signal.SIGCONT)
        for partition in range(PARTITIONS):
            wait_until(lambda partition=partition: late(q, partition) is None, 30, "the same client goes on")
        for job in held:
            if of_partition[job.partition] == stopped:
                job.ack()
        rest = [work.next_job(timeout=30) for _ in range(PARTITIONS)]
        assert {job.value for job in rest} == {b"late-%d" % partition for partition in range(PARTITIONS)}
        for job in rest:
            job.ack()
        depth = q.queues.depth(TOPIC, "g")
        assert (depth.ready, depth.leased, depth.retrying) == (0, 0, 0)
    names = [b"%s-%d" % (what, partition) for what in (b"first", b"late") for partition in range(PARTITIONS)]
    assert stored(broker) == Counter(names), "once each, although some were sent again"
    assert broker.workers[stopped]["pid"] == pid


def late(q: quiver.Client, partition: int, seconds: float = 60) -> QuiverError | None:
    try:
        q.publish(TOPIC, b"late-%d" % partition, partition=partition, id=f"late-{partition}", timeout=seconds)
    except (ConnectionLost, RequestTimeout, WorkerUnavailable) as error:
        return error
    return None


def test_a_worker_that_ends_at_every_start_ends_the_broker_and_loses_nothing(broker: BrokerProcess) -> None:
    with quiver.connect(broker.address) as q:
        values = [b"%d" % partition for partition in range(PARTITIONS)]
        for partition, value in enumerate(values):
            q.publish(TOPIC, value, partition=partition)
    stays, ending = (worker["pid"] for worker in broker.workers)
    starts = 0
    while broker.running and starts < MOST_STARTS:
        os.kill(ending, signal.SIGKILL)
        starts += 1
        ending = wait_until(lambda known={stays, ending}: next_pid(broker, known), 30, "another one is started")
    assert broker.wait_exit() == 1
    assert "5 workers have ended within 60 s; the broker stops" in broker.log_text
    assert "worker 1" in broker.log_text
    wait_until(lambda: not is_alive(stays), 30, "the other worker has stopped")
    broker.start()
    assert stored(broker) == Counter(values)


def next_pid(broker: BrokerProcess, known: set[int]) -> int | None:
    """A process that the supervisor has started since, ready or not; its own when it has ended."""
    try:
        children = Path(f"/proc/{broker.pid}/task/{broker.pid}/children").read_text().split()
    except OSError:
        children = []
    started = [pid for pid in map(int, children) if pid not in known and is_alive(pid)]
    return started[0] if started else None if broker.running else broker.pid
