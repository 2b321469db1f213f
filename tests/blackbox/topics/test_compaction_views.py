"""What users see of a compacted topic: counts, times, queues and transactions, before and after a restart."""

import json
from collections.abc import Callable

import quiver
from blackbox.callers.http_queue import HttpQueue
from blackbox.processes.broker_process import BrokerProcess
from blackbox.processes.cli_process import Cli

StartBroker = Callable[..., BrokerProcess]


def send(q: quiver.Client, topic: str, count: int, keys: int) -> None:
    """In one frame: keys take turns."""
    with q.producer(topic) as producer:
        producer.send_many([b"%d" % n for n in range(count)], keys=[b"key %d" % (n % keys) for n in range(count)])


def test_counts_are_of_what_is_there(shared_broker: BrokerProcess) -> None:
    with quiver.connect(shared_broker.address) as q:
        q.topics.create("counted", partitions=1, cleanup="compact")
        send(q, "counted", 1_000, keys=10)
        assert (q.topics.describe("counted").message_count, q.topics.describe("counted").compacted_to) == (
            1_000,
            (0,),
        )
        q.topics.compact("counted")
        q.publish("counted", b"later", key=b"key 3")
        described = q.topics.describe("counted")
        assert (described.message_count, described.offsets, described.compacted_to) == (11, [(0, 1_001)], (1_000,))
    _, answer = shared_broker.request("GET", "/topics/counted")
    assert answer["total_messages"] == 11
    assert answer["partition_offsets"]["0"]["compacted_to"] == 1_000
    _, stats = shared_broker.request("GET", "/stats")
    assert stats["topic_stats"]["counted"]["messages"] == 11
    shown = json.loads(Cli(shared_broker.address)("topic", "describe", "counted", "-o", "json").stdout)
    assert (shown["total_messages"], shown["partition_offsets"]["0"]["compacted_to"]) == (11, 1_000)
    _, priorities = shared_broker.request("GET", "/priority/stats")
    assert "counted" in json.dumps(priorities)


def test_markers_and_aborted_messages_are_counted_as_they_are(shared_broker: BrokerProcess) -> None:
    with quiver.connect(shared_broker.address) as q:
        q.topics.create("bank", partitions=1, cleanup="compact")
        q.publish("bank", b"100", key=b"ada")
        for value, commits in ((b"90", True), (b"gone", False)):
            with q.transaction("clerk") as transaction:
                transaction.publish("bank", value, key=b"ada")
                transaction.flush()
                if not commits:
                    transaction.abort()
        assert q.topics.describe("bank").message_count == 3, "whatever became of them"
        for _ in range(3):
            q.topics.compact("bank")
            assert [m.value for m in q.read("bank", start="earliest", end="latest")] == [b"90"]
            assert q.topics.describe("bank").message_count == 1


def test_a_queue_goes_on_after_a_restart(start_broker: StartBroker) -> None:
    """Leases of messages that are gone when they come back."""
    broker = start_broker()
    queue = HttpQueue(broker, cleanup="compact")
    with quiver.connect(broker.address) as q:
        send(q, queue.topic, 35, keys=10)
        assert len(queue.receive(max_messages=35, visibility="1s")) == 35
        q.topics.compact(queue.topic)
    broker.restart(kill=True)
    messages = queue.receive_all(10)
    assert sorted((m["offset"], m["value"]) for m in messages) == [(n, str(n)) for n in range(25, 35)]
    counts = queue.call("GET", "/reliability/stats")["topics"][queue.topic]["groups"]["workers"]
    assert (counts["lost_to_retention"], counts["in_flight"]) == (0, 10)
