"""The SDK settles messages at the workers that own them, and counts what it holds over all of them."""

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import quiver
from blackbox.processes.broker_process import BrokerProcess
from quiver.model.errors import MessageTimeout

PARTITIONS = 4
TOPIC = "jobs"


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[BrokerProcess]:
    with BrokerProcess(tmp_path / "data", "--workers", "2") as process:
        yield process


def cluster(broker: BrokerProcess) -> Any:
    status, answer = broker.request("GET", "/cluster?units=true")
    assert status == 200
    return answer


def fill(broker: BrokerProcess, per_partition: int, **settings: int) -> None:
    with quiver.connect(broker.address) as q:
        q.topics.create(TOPIC, partitions=PARTITIONS, **settings)
        for partition in range(PARTITIONS):
            for number in range(per_partition):
                q.publish(TOPIC, b"%d" % number, partition=partition)


def test_settlements_need_no_other_worker_than_the_owner(broker: BrokerProcess):
    """Each worker is stopped in turn: whichever accepted the client's first connection is among them."""
    fill(broker, 4)
    owners, pids = cluster(broker)["topics"][TOPIC], [worker["pid"] for worker in cluster(broker)["workers"]]
    with quiver.connect(broker.address) as q, q.work(TOPIC, group="g") as work:
        jobs = [work.next_job(timeout=10) for _ in range(4 * PARTITIONS)]
        for stopped, pid in enumerate(pids):
            os.kill(pid, signal.SIGSTOP)
            try:
                own = [job for job in jobs if owners[job.partition] != stopped]
                own[0].ack()
                own[1].nack(delay=60)
                own[2].reject("bad")
                assert own[3].extend("1m") > 0
                with own[4]:
                    pass
            finally:
                os.kill(pid, signal.SIGCONT)
            jobs = [job for job in jobs if not job.is_settled]
    with quiver.connect(broker.address) as q:
        depth = q.queues.depth(TOPIC, "g")
    assert (depth.retrying, depth.dead) == (2, 2)
    assert depth.ready + depth.leased == 4 * PARTITIONS - 8


def test_a_batch_of_several_owners_is_settled_as_one(broker: BrokerProcess):
    fill(broker, 4)
    with quiver.connect(broker.address) as q, q.work(TOPIC, group="g", max_messages=100, prefetch=100) as work:
        settled = 0
        while settled < 4 * PARTITIONS:
            batch = work.next_batch(timeout=10)
            assert batch is not None
            settled += len(batch)
            batch.ack()
        depth = q.queues.depth(TOPIC, "g")
    assert (depth.ready, depth.leased, depth.retrying) == (0, 0, 0)


@pytest.mark.parametrize("prefetch", [0, 100])
def test_a_consumer_holds_max_unacked_over_all_workers(broker: BrokerProcess, prefetch: int):
    fill(broker, 10, max_unacked=6)
    with quiver.connect(broker.address) as q, q.work(TOPIC, group="g", prefetch=prefetch) as work:
        held = [work.next_job(timeout=10) for _ in range(6)]
        with pytest.raises(MessageTimeout):
            work.next_job(timeout=0.3)
        assert q.queues.depth(TOPIC, "g").leased == 6
        for _ in range(10):
            held.pop(0).ack()
            held.append(work.next_job(timeout=10))
            assert q.queues.depth(TOPIC, "g").leased <= 6
        for job in held:
            job.ack()
