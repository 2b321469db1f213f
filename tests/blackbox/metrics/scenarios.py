"""What makes each series of GET /metrics move. A scenario acts, and what it began goes on until it is closed."""

import contextlib
import itertools
import resource
import threading
from collections.abc import Callable, Iterator
from typing import Any

import quiver
from blackbox.callers.http_queue import HttpQueue
from blackbox.processes.broker_process import BrokerProcess
from quiver.metrics import cluster_series, series
from quiver.telemetry.exposition import Series

_numbers = itertools.count()


class Stage:
    """A broker, a client, and a topic of the scenario's own that has a message."""

    def __init__(self, broker: BrokerProcess, q: quiver.Client) -> None:
        self.broker = broker
        self.q = q
        self.queue = HttpQueue(broker, visibility="1h")
        self.topic = self.queue.topic
        self.queue.publish("first")
        self.name = f"scenario-{next(_numbers)}"
        """For groups, producers and the like."""


Scenario = Callable[[Stage], Iterator[None]]


def _action(act: Callable[[Stage], Any]) -> Scenario:
    def scenario(stage: Stage) -> Iterator[None]:
        act(stage)
        yield

    return scenario


def _duplicate(stage: Stage) -> None:
    for _ in range(2):
        stage.queue.publish("again", id="the same")


def _waiting_fetch(stage: Stage) -> Iterator[None]:
    """A reader that has read everything, and a message that comes later."""
    with contextlib.closing(stage.q.read(stage.topic)) as reader:
        messages = iter(reader)
        next(messages)
        publishing = threading.Thread(target=lambda: [stage.queue.publish("more") for _ in range(20)])
        publishing.start()
        for _ in range(20):
            next(messages)
        publishing.join()
        yield


def _received(stage: Stage, **options: Any) -> list[dict[str, Any]]:
    return list(stage.queue.receive(stage.name, **options))


def _settled(action: str) -> Callable[[Stage], None]:
    def settle(stage: Stage) -> None:
        [message] = _received(stage)
        stage.queue.call("POST", f"/messages/{action}", {"receipt_handle": message["receipt_handle"], "delay": 0})

    return settle


def _delivered_again(stage: Stage) -> None:
    _settled("nack")(stage)
    _received(stage, wait="10s")


def _blocked_key(stage: Stage) -> None:
    stage.queue.publish("a", "b", key="same")
    while not any(message.get("key") for message in stage.queue.receive(stage.name, max_messages=1, ordering="key")):
        pass


def _lag(stage: Stage) -> None:
    stage.queue.publish(*"abc")
    for message in stage.q.stream(stage.topic, group=stage.name):
        message.commit()
        break


def _member(stage: Stage) -> Iterator[None]:
    with contextlib.closing(stage.q.stream(stage.topic, group=stage.name)) as stream:
        next(iter(stream))
        yield


def _heavy_publishing(stage: Stage) -> Iterator[None]:
    """More than the disk takes at once."""
    stop = threading.Event()

    def publish() -> None:
        with stage.q.producer(stage.topic, linger=0) as out:
            while not stop.is_set():
                out.send_many([b"x" * 10_000] * 2_000)
                out.flush()

    threads = [threading.Thread(target=publish) for _ in range(2)]
    for thread in threads:
        thread.start()
    yield
    stop.set()
    for thread in threads:
        thread.join()


def _file(stage: Stage) -> None:
    (stage.broker.data_dir.parent / f"{stage.name}.bin").write_bytes(b"x" * 8_000_000)


def _client(stage: Stage) -> Iterator[None]:
    with quiver.connect(stage.broker.address):
        yield


def _transaction(stage: Stage) -> None:
    with stage.q.transaction(stage.name) as transaction:
        transaction.publish(stage.topic, b"v")


def _open_transaction(stage: Stage) -> Iterator[None]:
    with stage.q.transaction(stage.name) as transaction:
        transaction.publish(stage.topic, b"v")
        transaction.flush()
        yield


def _more_open_files(stage: Stage) -> None:
    soft, hard = resource.prlimit(stage.broker.pid, resource.RLIMIT_NOFILE)
    resource.prlimit(stage.broker.pid, resource.RLIMIT_NOFILE, (soft - 1, hard))


def _memory(stage: Stage) -> None:
    with stage.q.producer(stage.topic) as out:
        out.send_many([b"x" * 1_000] * 10_000)


def _restart(stage: Stage) -> None:
    stage.broker.restart()


def _refused(stage: Stage) -> None:
    stage.queue.call("PATCH", f"/topics/{stage.topic}", {"max_message_bytes": 10})
    stage.queue.call("POST", f"/topics/{stage.topic}/messages", {"messages": [{"value": "x" * 100}]})


def _two_members(stage: Stage) -> Iterator[None]:
    with contextlib.closing(stage.q.stream(stage.topic, group=stage.name)) as one:
        next(iter(one))
        with quiver.connect(stage.broker.address) as other:
            stream = other.stream(stage.topic, group=stage.name)
            with contextlib.closing(stream):
                yield


def _due(stage: Stage) -> None:
    stage.queue.publish("soon", delay="50ms")


def _schedule(stage: Stage) -> None:
    body = {"name": stage.name, "cron": "0 0 1 1 *", "topic": stage.topic, "value": "v"}
    stage.queue.call("POST", "/schedules", body, status=201)
    stage.queue.call("POST", f"/schedules/{stage.name}/run")


def _retention(stage: Stage) -> None:
    """The segment is closed and removed after its messages are older than retention."""
    stage.queue.call("PATCH", f"/topics/{stage.topic}", {"retention": "1s"})
    stage.queue.publish("more")


def _compaction(stage: Stage) -> None:
    stage.queue.call("PATCH", f"/topics/{stage.topic}", {"cleanup": "compact"})
    stage.queue.publish(*"abcdef", key="same")
    stage.queue.call("POST", f"/admin/topics/{stage.topic}/compact", {})


def _traced(stage: Stage) -> None:
    with quiver.connect(stage.broker.address, tracing=1) as other:
        other.publish(stage.topic, b"sampled")


_publish = _action(lambda stage: stage.queue.publish("more"))
_receive = _action(lambda stage: _received(stage))
_nothing = _action(lambda stage: None)

SCENARIOS: dict[Series, Scenario] = {
    series.PUBLISHED_MESSAGES: _publish,
    series.PUBLISHED_BYTES: _publish,
    series.PUBLISHED_FRAMES: _publish,
    series.REFUSED: _action(_refused),
    series.DUPLICATES: _action(_duplicate),
    series.PUBLISH_SECONDS: _publish,
    series.READ_MESSAGES: _receive,
    series.READ_BYTES: _action(lambda stage: list(stage.q.read(stage.topic, end="latest"))),
    series.FETCH_WAIT: _waiting_fetch,
    series.DELIVERIES: _action(_delivered_again),
    series.SETTLED: _action(_settled("ack")),
    series.DEAD_LETTERS: _action(_settled("reject")),
    series.LEASES_LOST: _action(lambda stage: _received(stage, visibility="50ms")),
    series.QUEUE_MESSAGES: _receive,
    series.QUEUE_OLDEST: _receive,
    series.BLOCKED_KEYS: _action(_blocked_key),
    series.DELIVERY_WAIT: _receive,
    series.ACK_WAIT: _action(_settled("ack")),
    series.LAG_MESSAGES: _action(_lag),
    series.LAG_SECONDS: _action(_lag),
    series.MEMBERS: _member,
    series.REBALANCES: _two_members,
    series.REBALANCE_SECONDS: _two_members,
    series.COMMITS: _action(_lag),
    series.LATENESS: _action(_due),
    series.SCHEDULE_RUNS: _action(_schedule),
    series.DELAYED: _action(lambda stage: stage.queue.publish("later", delay="1h")),
    series.TRANSACTIONS: _action(_transaction),
    series.TRANSACTION_SECONDS: _action(_transaction),
    series.TRANSACTIONS_OPEN: _open_transaction,
    series.TRACE_EVENTS: _action(_traced),
    series.LOG_BYTES: _publish,
    series.SYNC_SECONDS: _publish,
    series.RETENTION_REMOVED: _action(_retention),
    series.COMPACTION_REMOVED: _action(_compaction),
    series.WRITE_QUEUE: _heavy_publishing,
    series.PARTITIONS: _action(lambda stage: HttpQueue(stage.broker)),
    series.DISK_FREE: _action(_file),
    series.LOOP_LAG: _nothing,
    series.CONNECTIONS: _client,
    series.REQUESTS: _publish,
    series.REQUEST_SECONDS: _publish,
    series.MEMORY_HELD: _receive,
    series.PROCESS_CPU: _publish,
    series.PROCESS_RESIDENT: _action(_memory),
    series.PROCESS_VIRTUAL: _action(_memory),
    series.PROCESS_FILES: _client,
    series.PROCESS_MAX_FILES: _action(_more_open_files),
    series.PROCESS_START: _action(_restart),
    series.RECOVERY: _action(_restart),
}
ELSEWHERE = {
    series.SYNC_FAILURES: "test_a_sync_that_fails_is_counted needs a broken disk",
    series.BUFFERED: "test_postgres_buffer takes a database away",
    series.BUFFER_MESSAGES: "the same",
    series.BUFFER_BYTES: "the same",
    cluster_series.UNITS: "test_replicated_cluster kills nodes",
    cluster_series.UNITS_BEHIND: "the same",
    cluster_series.UNITS_REFUSING: "the same",
    cluster_series.LOGS_REFUSING: "the same",
    cluster_series.REPLICA_LAG: "the same",
    cluster_series.EPOCHS: "the same",
    cluster_series.ACKED_BY_LEADER: "it publishes with acks=leader",
    cluster_series.REPLICA_READ_BYTES: "it reads from the nearest node",
    series.TRACE_EVENTS_DROPPED: "so do spans that cannot be written, in the same test",
}
CONSTANT = {series.BUILD_INFO: "it says which version runs"}
