"""The life of a message, through the shipped program: HTTP, the SDK and the command line, before and after a kill."""

import json
from typing import Any

import pytest

import quiver
from blackbox.callers.http_queue import HttpQueue
from blackbox.processes.broker_process import BrokerProcess, wait_until
from blackbox.processes.cli_process import Cli
from quiver.model.errors import MessageNotFound

SECONDS = 30.0


def life(queue: HttpQueue, offset: int, *, topic: str | None = None) -> dict[str, Any]:
    path = f"/topics/{topic or queue.topic}/partitions/0/messages/{offset}/life"
    return dict(queue.call("GET", path))


def names(found: dict[str, Any]) -> list[str]:
    return [event["event"] for event in found["events"]]


def wait_for(queue: HttpQueue, offset: int, event: str) -> dict[str, Any]:
    """The life once it has an event, and knows where the message went with it."""

    def has_it() -> bool:
        events = [each for each in life(queue, offset)["events"] if each["event"] == event]
        return bool(events) and all("to" not in each or each["to"]["offset"] is not None for each in events)

    wait_until(has_it, SECONDS, event)
    return life(queue, offset)


def test_every_step_is_known_after_a_kill(broker: BrokerProcess) -> None:
    queue = HttpQueue(broker, max_attempts=3, backoff="1ms", backoff_max="1ms")
    queue.publish("a", "b")
    first, second = queue.receive(consumer="worker-1", visibility="1h")
    queue.settle("ack", first)
    queue.settle("nack", second, reason="no stock", delay="1ms")
    second = queue.receive_one(consumer="worker-2", visibility="1h")
    queue.settle("visibility", second, timeout="2h")
    queue.settle("reject", second, reason="never")
    before = [wait_for(queue, 1, "dead_lettered"), life(queue, 0)]
    assert names(before[1]) == ["published", "appended", "delivered", "acked"]
    acked = before[1]["events"][-1]
    assert (acked["group"], acked["consumer"], acked["attempt"]) == ("workers", "worker-1", 1)
    assert acked["duration_ms"] == before[1]["events"][2]["duration_ms"] >= 0
    assert names(before[0]) == [
        *("published", "appended", "delivered", "nacked", "delivered", "extended", "dead_lettered"),
    ]
    assert before[0]["events"][3]["error"] == "no stock"
    dead = before[0]["events"][-1]
    assert (dead["reason"], dead["error"], dead["consumer"]) == ("rejected", "never", "worker-2")
    assert dead["to"] == {"topic": f"{queue.topic}.dlq", "partition": 0, "offset": 0}
    assert before[0]["groups"] == [{"group": "workers", "kind": "queue", "state": "dead", "attempts": 2}]
    assert (before[0]["known_since"], before[0]["notes"]) == (None, [])

    broker.kill()
    broker.start()
    assert [life(queue, 1), life(queue, 0)] == before
    letter = life(queue, 0, topic=f"{queue.topic}.dlq")
    assert names(letter) == ["published", "dead_lettered", "appended"]
    assert letter["events"][1]["origin"] == {"topic": queue.topic, "partition": 0, "offset": 1}

    queue.call("POST", f"/topics/{queue.topic}/dlq/redrive", {})
    broker.kill()
    broker.start()
    redriven = wait_for(queue, 1, "redriven")["events"][-1]
    assert redriven["origin"]["offset"] == 0
    back = life(queue, redriven["to"]["offset"])
    assert names(back) == ["published", "dead_lettered", "redriven", "appended"]
    assert back["events"][1]["origin"] == {"topic": queue.topic, "partition": 0, "offset": 1}


def test_a_lease_that_ended_and_a_message_that_was_delayed(shared_broker: BrokerProcess) -> None:
    queue = HttpQueue(shared_broker)
    [delayed] = queue.publish("late", delay="50ms")
    assert queue.receive_one(visibility="50ms")["value"] == "late"
    again = queue.receive_one(consumer="two")
    found = life(queue, again["offset"])
    assert names(found) == ["published", "delayed", "appended", "delivered", "lease_ended", "delivered"]
    assert found["events"][1]["delayed_id"] == delayed["offset"]
    assert found["events"][4]["error"] == "the lease expired"
    assert [group["state"] for group in found["groups"]] == ["leased"]


def test_stream_groups_have_passed_it_or_not(q: quiver.Client, shared_broker: BrokerProcess) -> None:
    q.topics.create("followed", partitions=1)
    for value in (b"a", b"b"):
        q.publish("followed", value)
    with q.stream("followed", group="readers") as stream:
        next(iter(stream)).commit()
    assert [each.state for each in q.traces.message("followed", 0, 0).groups] == ["settled"]
    assert [each.state for each in q.traces.message("followed", 0, 1).groups] == ["waiting"]


async def test_the_sdk_of_both_kinds(shared_broker: BrokerProcess, q: quiver.Client) -> None:
    q.topics.create("seen", partitions=1)
    with q.transaction() as tx:
        tx.publish("seen", b"x", partition=0)
    async with quiver.connect_async(f"127.0.0.1:{shared_broker.native_port}") as aq:
        found = await aq.traces.message("seen", 0, 0)
        assert found == q.traces.message("seen", 0, 0)
        assert [event.event for event in found.events] == ["published", "appended", "transaction_committed"]
        with pytest.raises(MessageNotFound, match="the end of a transaction"):
            await aq.traces.message("seen", 0, 1)


def test_the_command(q: quiver.Client, cli: Cli) -> None:
    q.topics.create("told", partitions=1)
    q.publish("told", b"x", headers={"traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"})
    for job in q.work("told", group="workers", timeout="20s"):
        job.nack(delay="1h", error="later")
        break
    table = cli("trace", "message", "told", "0", "0").stdout.decode()
    assert table.splitlines()[0].split() == [
        *("TIME", "EVENT", "GROUP", "CONSUMER", "ATTEMPT", "DURATION", "DETAILS"),
    ]
    assert "error later" in table
    assert table.splitlines()[-1].split() == ["workers", "queue", "retrying", "1"]
    document = json.loads(cli("trace", "message", "told", "0", "0", "--output", "json").stdout)
    assert [event["event"] for event in document["events"]] == ["published", "appended", "delivered", "nacked"]
    assert document["trace_id"] == "0af7651916cd43dd8448eb211c80319c"
    assert b"the next message will have offset 1" in cli("trace", "message", "told", "0", "7", fails=True).stderr


@pytest.mark.parametrize(
    ("place", "status", "code", "says"),
    [
        ("bad/partitions/0/messages/0", 404, "topic_not_found", "quiver topic create"),
        ("{topic}/partitions/7/messages/0", 404, "partition_not_found", "numbered from 0"),
        ("{topic}/partitions/0/messages/1", 404, "message_not_found", "the next message will have offset 1"),
        ("{topic}/partitions/0/messages/-1", 400, "invalid_request", "is not an offset"),
        ("{topic}/partitions/0/messages/1e9", 400, "invalid_request", "is not an offset"),
        ("{topic}/partitions/0/messages/99999999999999999999999", 400, "invalid_request", "is not an offset"),
    ],
)
def test_errors_are_sentences(shared_broker: BrokerProcess, place: str, status: int, code: str, says: str) -> None:
    queue = HttpQueue(shared_broker)
    queue.publish("a")
    answer = queue.call("GET", f"/topics/{place.format(topic=queue.topic)}/life", status=status)
    assert answer["code"] == code
    assert says in answer["error"]


def test_one_message_among_thousands(broker: BrokerProcess) -> None:
    """The journal has many chunks, and a life has the message's own events only."""
    queue = HttpQueue(broker)
    for _ in range(30):
        queue.publish(*(str(number) for number in range(100)))
        for message in queue.receive_all(100, visibility="1h"):
            queue.settle("ack", message)
    for offset in (0, 1_499, 2_999):
        found = life(queue, offset)
        assert names(found) == ["published", "appended", "delivered", "acked"]
        assert found["groups"][0]["state"] == "settled"
