"""Delayed messages and kill -9: nothing early, nothing lost, nothing twice, cancelled means never."""

import random
import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

import quiver
from blackbox.processes.broker_process import BrokerProcess, free_port, wait_until
from quiver.model.errors import DelayedNotFound, QuiverError

SECONDS = 60.0


@pytest.mark.parametrize("kill", [True, False], ids=["kill", "terminate"])
def test_what_waits_survives(start_broker: Callable[..., BrokerProcess], kill: bool) -> None:
    broker = start_broker()
    with quiver.connect(broker.address) as q:
        q.topics.create("t", partitions=2)
        far = [q.publish("t", b"%d" % n, delay=f"{n + 1}h", partition=n % 2) for n in range(10)]
        q.delayed.cancel("t", far[3].partition, far[3].offset)
        q.delayed.reschedule("t", far[0].partition, far[0].offset, delay="99h")
        due_ms = int(time.time() * 1000) + 1500
        q.publish("t", b"near", key="k", headers={"a": "1"}, priority="low", deliver_at=due_ms)
    broker.restart(kill=kill)
    with quiver.connect(broker.address) as q:
        listed = q.delayed.list("t")
        waiting = [(each.partition, each.id) for each in listed if each.deliver_at_ms > due_ms]
        assert waiting == [(place.partition, place.offset) for place in [*far[1:3], *far[4:], far[0]]]
        assert q.delayed.get("t", far[3].partition, far[3].offset).state == "cancelled"
        with pytest.raises(DelayedNotFound):
            q.delayed.cancel("t", far[3].partition, far[3].offset)
        message = next(iter(q.read("t")))
        assert (message.value, message.key, message.headers) == (b"near", b"k", {"a": b"1"})
        assert message.priority == "low"
        assert message.append_time >= due_ms


def test_what_fell_due_while_the_broker_was_down_comes_at_its_start(broker: BrokerProcess) -> None:
    with quiver.connect(broker.address) as q:
        q.topics.create("t", partitions=1)
        due_ms = int(time.time() * 1000) + 300
        q.publish("t", b"overdue", deliver_at=due_ms, ttl="1h")
    broker.kill()
    wait_until(lambda: time.time() * 1000 > due_ms, SECONDS, "its time has come")
    broker.start()
    with quiver.connect(broker.address) as q:
        assert next(iter(q.read("t"))).value == b"overdue"


class Traffic:
    """Publishes and cancels until it is told to stop, and remembers what was answered."""

    def __init__(self, address: str, seed: int) -> None:
        self.address = address
        self.chance = random.Random(seed)
        self.scheduled: dict[bytes, int] = {}
        self.asked: set[bytes] = set()
        self.cancelling: set[bytes] = set()
        self.cancelled: set[bytes] = set()
        self.stop = threading.Event()
        self.thread = threading.Thread(target=self._run)

    def _run(self) -> None:
        with quiver.connect(self.address) as q:
            number = 0
            while not self.stop.is_set():
                number += 1
                value = b"%d" % number
                due_ms = int(time.time() * 1000) + self.chance.choice([0, 20, 100, 400, 900])
                self.asked.add(value)
                try:
                    place = q.publish("t", value, deliver_at=due_ms, partition=number % 2)
                except QuiverError:
                    continue
                self.scheduled[value] = due_ms
                if self.chance.random() < 0.2:
                    self._cancel(q, value, place)

    def _cancel(self, q: quiver.Client, value: bytes, place: quiver.Published) -> None:
        self.cancelling.add(value)
        try:
            q.delayed.cancel("t", place.partition, place.offset)
            self.cancelled.add(value)
        except DelayedNotFound:
            self.cancelling.discard(value)
        except QuiverError:
            pass


def test_killed_at_any_moment(tmp_path: Path) -> None:
    ports = ("--http-port", str(free_port()), "--native-port", str(free_port()))
    with BrokerProcess(tmp_path / "data", *ports) as broker:
        with quiver.connect(broker.address) as q:
            q.topics.create("t", partitions=2)
        traffic = Traffic(broker.address, seed=4)
        traffic.thread.start()
        try:
            for turn in range(1, 5):
                wait_until(lambda turn=turn: len(traffic.scheduled) >= 60 * turn, SECONDS, "traffic")
                broker.restart(kill=True)
        finally:
            traffic.stop.set()
            traffic.thread.join()
        with quiver.connect(broker.address) as q:
            wait_until(lambda: q.delayed.list("t").total == 0, SECONDS, "everything has left")
            wait_until(
                lambda: len(_messages(q)) >= len(set(traffic.scheduled) - traffic.cancelling), SECONDS, "all there"
            )
            found = _messages(q)
    counts = Counter(value for value, _ in found)
    assert not [value for value, count in counts.items() if count > 1]
    assert not traffic.cancelled & set(counts)
    assert set(traffic.scheduled) - traffic.cancelling <= set(counts) <= traffic.asked
    assert traffic.cancelled
    for value, appended_ms in found:
        assert appended_ms >= traffic.scheduled.get(value, 0)


def _messages(q: quiver.Client) -> list[tuple[bytes, int]]:
    return [(each.value, each.append_time) for each in q.read("t", end="latest")]
