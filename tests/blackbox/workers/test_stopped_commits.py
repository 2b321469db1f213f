"""Commits over several owners while one of them is stopped: each counts as a whole or not at all."""

import os
import random
import signal
import threading
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import quiver
from blackbox.processes.broker_process import BrokerProcess, free_port, wait_until
from quiver.cluster.placement import Placement
from quiver.model.errors import QuiverError, TransactionAborted

WORKERS, PARTITIONS, ROUNDS = 2, 4, 4
SOURCE, TARGET, QUEUE = "orders", "bills", "billing"
CLIENT_SECONDS = 1.0
COMMIT_SECONDS = 0.03
"""A worker is stopped so soon after the begin of a commit: below and above what that takes."""
PAUSES_SECONDS = [0.0, 6.5]
"""How long a worker is stopped at least: until its client gives up, or longer than workers wait for each other."""


def reader_groups() -> list[str]:
    """A stream group of each worker."""
    placement, found = Placement(0, WORKERS), dict[int, str]()
    for number in range(100):
        found.setdefault(placement.group_worker(f"readers-{number}"), f"readers-{number}")
    return list(found.values())


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[BrokerProcess]:
    with BrokerProcess(tmp_path / "data", "--native-port", str(free_port()), "--workers", str(WORKERS)) as process:
        with quiver.connect(process.address) as q:
            for topic in (SOURCE, TARGET):
                q.topics.create(topic, partitions=PARTITIONS, visibility="10m")
            for partition in range(PARTITIONS):
                for number in range(ROUNDS):
                    q.publish(SOURCE, b"%d" % number, partition=partition)
        yield process


class Biller:
    """Each round publishes to all owners, settles a job of each of them and commits offsets at each of them."""

    def __init__(self, q: Any, jobs: list[Any]) -> None:
        self._q, self._transactional = q, q.transactional("biller")
        self._jobs = [[job for job in jobs if job.partition == partition] for partition in range(PARTITIONS)]
        self._attempts = 0
        self.expected: list[bytes] = []

    def begin(self, number: int) -> Any:
        self._attempts += 1
        tx = self._transactional.begin()
        for partition, jobs in enumerate(self._jobs):
            tx.publish(TARGET, self._value(partition), partition=partition)
            tx.ack(jobs[number])
        for group in reader_groups():
            tx.commit_offsets(group, {SOURCE: dict.fromkeys(range(PARTITIONS), number + 1)})
        tx.flush()
        return tx

    def is_committed(self, tx: Any) -> bool:
        """Asks until the outcome is known."""
        wait_until(lambda: self._ask(tx), 60, "the outcome")
        if tx.state == "committed":
            self.expected += map(self._value, range(PARTITIONS))
        return bool(tx.state == "committed")

    def _ask(self, tx: Any) -> bool:
        try:
            tx.commit()
        except TransactionAborted:
            return True
        except QuiverError as error:
            if not error.retryable:
                raise
            return False
        return True

    def _value(self, partition: int) -> bytes:
        return b"%d of attempt %d" % (partition, self._attempts)


def commit_while_stopped(tx: Any, pid: int, begins: float | None, lasts: float) -> str:
    """What the commit said, when it ended or was given up; the worker runs again afterwards. It is stopped so long
    after the commit began, or before."""
    said: list[str] = []

    def commit() -> None:
        try:
            tx.commit()
        except QuiverError as error:
            said.append(error.code)

    committing = threading.Thread(target=commit)
    if begins is not None:
        committing.start()
        committing.join(begins)
    os.kill(pid, signal.SIGSTOP)
    if begins is None:
        committing.start()
    until = time.monotonic() + lasts
    try:
        wait_until(lambda: not committing.is_alive() and time.monotonic() >= until, 60, "the commit is given up")
    finally:
        os.kill(pid, signal.SIGCONT)
    return said[0] if said else "committed"


@pytest.mark.parametrize("stopped", range(WORKERS))
def test_a_commit_counts_as_a_whole_or_not_at_all(broker: BrokerProcess, stopped: int) -> None:
    pid, chance = broker.workers[stopped]["pid"], random.Random(stopped)
    said: list[str] = []
    with (
        quiver.connect(broker.address) as direct,
        quiver.connect(broker.address, timeout=CLIENT_SECONDS) as q,
        q.work(SOURCE, group=QUEUE, prefetch=0) as work,
    ):
        biller = Biller(q, [work.next_job(timeout=30) for _ in range(ROUNDS * PARTITIONS)])
        for number in range(ROUNDS):
            is_done = False
            while not is_done:
                tx = biller.begin(number)
                begins = chance.uniform(0, COMMIT_SECONDS) if said else None
                said.append(commit_while_stopped(tx, pid, begins, PAUSES_SECONDS[number % len(PAUSES_SECONDS)]))
                is_done = biller.is_committed(tx)
                check(direct, biller, number + is_done)
    assert said[0] in ("timeout", "worker_unavailable", "connection_lost"), said
    assert broker.workers[stopped]["pid"] == pid


def check(q: Any, biller: Biller, rounds: int) -> None:
    assert Counter(message.value for message in q.read(TARGET, end="latest")) == Counter(biller.expected)
    depth = q.queues.depth(SOURCE, QUEUE)
    assert (depth.ready, depth.leased, depth.retrying) == (0, (ROUNDS - rounds) * PARTITIONS, 0)
    for group in reader_groups():
        offsets = q.groups.describe(group).partitions if rounds else []
        assert [part.committed for part in offsets] == [rounds] * len(offsets)
