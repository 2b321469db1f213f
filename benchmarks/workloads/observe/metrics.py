"""Scrapes, streams of the overview and lives of messages in a broker with 1,000 topics and 100 groups."""

import http.client
import time
from concurrent.futures import ThreadPoolExecutor

import quiver
from benchmarks.percentiles import latency_metrics
from benchmarks.run import Run
from benchmarks.servers.broker import Broker
from benchmarks.servers.server import HOST
from benchmarks.workloads.observe.asking import ask, broker_seconds, idle_share, loop_seconds

TOPICS, GROUPS = 1_000, 100
STREAMS = 10
FULL_SECONDS = 10.0
FULL_SCRAPES = 50
FULL_DELIVERIES = 100_000
FULL_LIVES = 200


def measure_observe(run: Run) -> None:
    with Broker(run.scratch / "observe") as broker:
        fill_topics(broker, topics=run.scale.count(TOPICS) if run.scale.share < 1 else TOPICS)
        time.sleep(2 * run.scale.share)
        for _ in run.repetitions():
            _scrapes(run, broker)
            _streams(run, broker)
        _deliver(broker, run.scale.count(FULL_DELIVERIES))
        for _ in run.repetitions():
            _lives(run, broker)


def fill_topics(broker: Broker, *, topics: int) -> None:
    """Topics with some messages, and groups of both kinds that use them."""
    with quiver.connect(broker.address) as client:
        for number in range(topics):
            client.topics.create(f"topic-{number:05}", partitions=1)
            if number < 10 * GROUPS and number % 10 == 0:
                client.publish(f"topic-{number:05}", {"number": number})
        for number in range(GROUPS // 2):
            topic = f"topic-{number * 10 % topics:05}"
            with client.work(topic, group=f"queue-{number}") as jobs:
                next(iter(jobs)).ack()
            with client.stream(topic, group=f"stream-{number}") as stream:
                next(iter(stream))


def _scrapes(run: Run, broker: Broker) -> None:
    """Without what the loop does by itself in the same time."""
    count = max(5, int(FULL_SCRAPES * run.scale.share))
    took: list[float] = []

    def scrape(times: int) -> None:
        for _ in range(times):
            begin = time.monotonic()
            ask(broker, "GET", "/metrics")
            took.append(time.monotonic() - begin)

    scrape(1)
    took.clear()
    with run.measuring("quiver", "observe", detail="scrapes", server_pids=[broker.pid]) as metrics:
        begin, before = time.monotonic(), loop_seconds(broker)
        scrape(count)
        used, seconds = loop_seconds(broker) - before, time.monotonic() - begin
        before = loop_seconds(broker)
        time.sleep(1)
        used -= (loop_seconds(broker) - before) * seconds
        metrics["loop_ms_per_scrape"] = max(0.0, used) / count * 1e3
        metrics |= latency_metrics("scrape", took)


def _streams(run: Run, broker: Broker) -> None:
    """Ten browsers, or programs; the tabs of one browser share a stream."""
    seconds = max(2.0, FULL_SECONDS * run.scale.share)
    idle = idle_share(broker, seconds)
    with run.measuring("quiver", "observe", detail=f"{STREAMS} streams", server_pids=[broker.pid]) as metrics:
        with ThreadPoolExecutor(STREAMS) as pool:
            used = broker_seconds(
                broker,
                lambda: list(pool.map(lambda _: _stream(broker.http_port, seconds), range(STREAMS))),
            )
        metrics["core_percent"] = 100 * used / seconds
        metrics["core_percent_idle"] = 100 * idle


def _stream(port: int, seconds: float) -> None:
    connection = http.client.HTTPConnection(HOST, port, timeout=30)
    connection.request("GET", "/overview/stream")
    answer, until = connection.getresponse(), time.monotonic() + seconds
    while time.monotonic() < until:
        answer.readline()
    connection.close()


def _deliver(broker: Broker, count: int) -> None:
    """A partition whose journal has many deliveries, some of them repeated."""
    with quiver.connect(broker.address) as client:
        client.topics.create("lives", partitions=1)
        with client.producer("lives") as producer:
            producer.send_many([b"x" * 100] * count)
        done = 0
        with client.work("lives", group="workers", max_messages=500) as work:
            for batch in work.batches():
                with batch:
                    done += len(batch)
                if done >= count:
                    return


def _lives(run: Run, broker: Broker) -> None:
    count = max(10, int(FULL_LIVES * run.scale.share))
    stored = run.scale.count(FULL_DELIVERIES)
    took: list[float] = []
    with run.measuring("quiver", "observe", detail="lives", server_pids=[broker.pid]) as metrics:
        for number in range(count):
            begin = time.monotonic()
            life = ask(broker, "GET", f"/topics/lives/partitions/0/messages/{number * stored // count}/life")
            took.append(time.monotonic() - begin)
            if [event["event"] for event in life["events"]][-1] != "acked":
                raise RuntimeError(f"the life of message {number * stored // count} is incomplete: {life}")
        metrics |= latency_metrics("life", took[1:])
        metrics["first_life_ms"] = took[0] * 1e3
