"""kill -9 at random moments under load: every acked message is there, in order, once.

`make chaos` (QUIVER_LONG=1) runs 50 rounds; QUIVER_CHAOS_ROUNDS and QUIVER_CHAOS_SEED choose otherwise.
"""

import os
import random
import signal
import time
from collections.abc import Callable

import pytest

import quiver
from blackbox.callers.load import Load, check_stored
from blackbox.processes.broker_process import BrokerProcess, free_port, wait_until

LONG = bool(os.environ.get("QUIVER_LONG"))
ROUNDS = int(os.environ.get("QUIVER_CHAOS_ROUNDS", "50" if LONG else "5"))
SEED = int(os.environ.get("QUIVER_CHAOS_SEED", "0")) or random.SystemRandom().randrange(1, 2**31)
PROGRESS_SECONDS = 60
SMALL_SEGMENT = 64 * 1024

StartBroker = Callable[..., BrokerProcess]


def _await_acks(load: Load, count: int) -> None:
    wait_until(
        lambda: len(load.acked) >= count or not load.is_alive(), PROGRESS_SECONDS, f"{count} acks, seed {SEED}"
    )
    if load.error is not None:
        raise load.error


def _kill_and_start_again(broker: BrokerProcess, chance: random.Random) -> None:
    """A kill now; every third time another one while the broker is starting."""
    broker.kill()
    if chance.random() < 0.34:
        broker.start(wait=False)
        time.sleep(chance.uniform(0.05, 0.8))
        broker.kill()
    broker.start()


@pytest.mark.long
@pytest.mark.timeout(60 + 30 * ROUNDS)
@pytest.mark.parametrize("durability", ["fsync", "interval"])
def test_every_acked_message_survives_kills_in_order_and_once(start_broker: StartBroker, durability: str) -> None:
    print(f"seed {SEED}, {ROUNDS} rounds")
    chance = random.Random(f"{SEED} {durability}")
    broker = start_broker("--native-port", str(free_port()))
    with quiver.connect(broker.address) as q:
        q.topics.create("orders", partitions=3, durability=durability, segment_bytes=SMALL_SEGMENT)
    load = Load(broker.address, "orders", 3)
    load.start()
    for _ in range(ROUNDS):
        _await_acks(load, len(load.acked) + chance.randint(1, 5000))
        _kill_and_start_again(broker, chance)
    _await_acks(load, len(load.acked) + 1000)
    load.finish()
    with quiver.connect(broker.address) as q:
        assert check_stored(q, "orders", load.acked) == load.sent, f"seed {SEED}"


def test_acked_messages_survive_when_the_producer_dies_with_the_broker(broker: BrokerProcess) -> None:
    with quiver.connect(broker.address) as q:
        q.topics.create("orders", partitions=1)
        placed = [q.publish("orders", b"%d" % number) for number in range(100)]
        broker.kill()
    broker.start()
    with quiver.connect(broker.address) as q:
        found = [(m.offset, m.value) for m in q.read("orders", start="earliest", end="latest")]
    assert found == [(answer.offset, b"%d" % number) for number, answer in enumerate(placed)]


def test_a_topic_survives_a_kill_right_after_its_creation(broker: BrokerProcess) -> None:
    with quiver.connect(broker.address) as q:
        q.topics.create("new", partitions=7, retention="3h")
        broker.kill()
    broker.start()
    status, topic = broker.request("GET", "/topics/new")
    assert (status, topic["partitions"], topic["config"]["retention"]) == (200, 7, "3h")


def test_a_deleted_topic_stays_deleted_after_a_kill(broker: BrokerProcess) -> None:
    with quiver.connect(broker.address) as q:
        q.topics.create("old")
        q.publish("old", b"x")
        q.topics.delete("old")
        broker.kill()
    broker.start()
    assert broker.request("GET", "/topics")[1]["topics"] == []
    with quiver.connect(broker.address) as q:
        q.topics.create("old", partitions=1)
        assert list(q.read("old", start="earliest", end="latest")) == []


@pytest.mark.parametrize("kill", [True, False], ids=["killed", "stopped"])
def test_a_memory_topic_forgets_its_messages_and_never_uses_an_offset_twice(
    broker: BrokerProcess, kill: bool
) -> None:
    with quiver.connect(broker.address) as q:
        q.topics.create("scratch", partitions=1, durability="memory")
        used = [q.publish("scratch", b"%d" % number).offset for number in range(10)]
    broker.restart(kill=kill)
    with quiver.connect(broker.address) as q:
        answer = q.publish("scratch", b"10")
        assert answer.offset > max(used)
        assert [(m.offset, m.value) for m in q.read("scratch", end="latest")] == [(answer.offset, b"10")]


def test_a_producer_goes_on_after_the_broker_was_paused(broker: BrokerProcess) -> None:
    """SIGSTOP, as in a frozen virtual machine: what was in flight is neither lost nor doubled."""
    with quiver.connect(broker.address) as q:
        q.topics.create("orders", partitions=2)
    load = Load(broker.address, "orders", 2)
    load.start()
    for _ in range(3):
        _await_acks(load, len(load.acked) + 500)
        broker.send_signal(signal.SIGSTOP)
        load.join(0.3)
        broker.send_signal(signal.SIGCONT)
    _await_acks(load, len(load.acked) + 500)
    load.finish()
    with quiver.connect(broker.address) as q:
        assert check_stored(q, "orders", load.acked) == load.sent
