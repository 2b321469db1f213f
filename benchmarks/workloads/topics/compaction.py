"""Compaction of a topic with ten versions of each key, in random order: how fast, how small, who is held up by it.

A topic is filled under `cleanup=delete` and compacted by hand, so that nothing was compacted before the time runs.
Then the same again while another topic is published to; the same publishing alone is the measure for it. A probe asks
/livez all the time: its slowest answer beside compaction alone bounds from above how long that holds the event loop.
With a publisher there are more processes than cores, and the answer says what the scheduler does.
"""

import random
import time
from collections.abc import Iterator

import quiver
from benchmarks.payload import bodies
from benchmarks.percentiles import latency_metrics
from benchmarks.roles import Role, Watch, run_roles
from benchmarks.run import Run
from benchmarks.servers.broker import Broker
from benchmarks.workloads.node.loop_stall import probe_livez

VERSIONS = 10
SIZE = 100
FULL_MESSAGES = 8_000_000
FULL_SECONDS = 5.0
CHUNK = 10_000


def measure_compaction(run: Run) -> None:
    count = run.scale.count(FULL_MESSAGES)
    seconds = max(1.0, FULL_SECONDS * run.scale.share)
    with Broker(run.scratch / "compaction") as broker:
        for number in run.repetitions():
            _measure_alone(run, broker, f"alone-{number}", count, seconds)
            _measure_publishing(run, broker, "publishing alone", {}, seconds)
            topic = f"beside-{number}"
            _fill(broker, topic, count)
            beside = {"compact": Role(_compact, (broker.address, topic))}
            _measure_publishing(run, broker, "publishing beside compaction", beside, seconds)


def _measure_alone(run: Run, broker: Broker, topic: str, count: int, seconds: float) -> None:
    before = _fill(broker, topic, count)
    detail = f"alone, {count} messages, {VERSIONS} versions a key"
    compact, probe = Role(_compact, (broker.address, topic)), Role(probe_livez, (broker.http_port, seconds))
    with run.measuring("quiver", "compaction", size=SIZE, detail=detail, server_pids=[broker.pid]) as metrics:
        outcomes = run_roles({"compact": compact, "probe": probe}, timeout=600)
        metrics["rate"] = before / 1e6 / outcomes["compact"].seconds
        metrics["left_percent"] = 100 * outcomes["compact"].result / before
        metrics |= latency_metrics("probe", outcomes["probe"].result)
    _discard(broker, topic)


def _measure_publishing(run: Run, broker: Broker, detail: str, others: dict[str, Role], seconds: float) -> None:
    _make(broker, "published")
    publish, probe = Role(_publish, (broker.address, seconds)), Role(probe_livez, (broker.http_port, seconds))
    with run.measuring("quiver", "compaction", size=SIZE, detail=detail, server_pids=[broker.pid]) as metrics:
        outcomes = run_roles({"publish": publish, "probe": probe} | others, timeout=600)
        metrics["rate"] = outcomes["publish"].result / outcomes["publish"].seconds
        metrics |= latency_metrics("probe", outcomes["probe"].result)
        if "compact" in outcomes:
            metrics["compacting_s"] = outcomes["compact"].seconds
    _discard(broker, "published")


def _fill(broker: Broker, topic: str, count: int) -> int:
    """Returns the bytes of the topic."""
    _make(broker, topic)
    with quiver.connect(broker.address) as client, client.producer(topic) as producer:
        for keys in _random_keys(count):
            chance = random.Random(keys[0])
            producer.send_many([chance.randbytes(SIZE) for _ in keys], keys=keys)
        producer.flush()
        return client.topics.describe(topic).size_bytes


def _random_keys(count: int) -> Iterator[list[bytes]]:
    """Each key ten times, in random order."""
    numbers = list(range(count // VERSIONS)) * VERSIONS
    random.Random(count).shuffle(numbers)
    for begin in range(0, len(numbers), CHUNK):
        yield [b"key-%012d" % number for number in numbers[begin : begin + CHUNK]]


def _make(broker: Broker, topic: str) -> None:
    with quiver.connect(broker.address) as client:
        client.topics.create(topic, partitions=1)


def _discard(broker: Broker, topic: str) -> None:
    with quiver.connect(broker.address) as client:
        client.topics.delete(topic)


def _compact(address: str, topic: str, watch: Watch) -> int:
    """Returns the bytes that are left."""
    with quiver.connect(address) as client:
        client.topics.alter(topic, cleanup="compact")
        watch.start()
        client.topics.compact(topic)
        watch.stop()
        return client.topics.describe(topic).size_bytes


def _publish(address: str, seconds: float, watch: Watch) -> int:
    values = bodies(SIZE, CHUNK)
    sent = 0
    with quiver.connect(address) as client, client.producer("published") as producer:
        watch.start()
        while time.monotonic() - watch.started < seconds:
            producer.send_many(values)
            sent += CHUNK
        producer.flush()
        watch.stop()
    return sent
