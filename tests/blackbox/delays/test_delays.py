"""Delayed messages through HTTP, the SDK and the command line of a running broker."""

import asyncio
import json
import re
import time
import uuid
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

import quiver
from blackbox.callers.new_topic import new_topic
from blackbox.processes.broker_process import BrokerProcess, wait_until
from blackbox.processes.cli_process import Cli
from quiver.model.errors import DelayedNotFound, InvalidRequest, TopicNotFound
from quiver.model.times import parse_time_ms

SECONDS = 30.0


@pytest.fixture
def topic(q) -> str:
    return new_topic(q, partitions=2)


def publish(broker: BrokerProcess, topic: str, *messages: dict[str, Any]) -> list[dict[str, Any]]:
    status, answer = broker.request("POST", f"/topics/{topic}/messages", {"messages": list(messages)})
    assert status == 200, answer
    return answer["results"]


def stored(broker: BrokerProcess, topic: str) -> list[dict[str, Any]]:
    found = []
    for partition in range(2):
        _, answer = broker.request("GET", f"/topics/{topic}/partitions/{partition}/messages")
        found += answer["messages"]
    return found


def arrived(broker: BrokerProcess, topic: str, count: int) -> list[dict[str, Any]]:
    """The messages of a topic as soon as there are so many."""
    wait_until(lambda: len(stored(broker, topic)) >= count, SECONDS, f"{count} messages in {topic}")
    return stored(broker, topic)


def test_a_message_comes_at_its_time_with_all_it_has(shared_broker: BrokerProcess, topic: str) -> None:
    extra = {"key": "k", "headers": {"a": "1"}, "priority": "high", "timestamp": 77, "ttl": "1h"}
    [later, now, past] = publish(
        shared_broker,
        topic,
        {"value": "later", "delay": "700ms", **extra},
        {"value": "now", "partition": 0},
        {"value": "past", "partition": 0, "deliver_at": "2001-01-01T00:00:00Z"},
    )
    assert later["delayed"] is True
    assert later["deliverAt"] == later["deliver_at"]
    assert "delayed" not in now
    assert "delayed" not in past
    found = arrived(shared_broker, topic, 3)
    message = next(message for message in found if message["value"] == "later")
    assert (message["key"], message["headers"], message["priority"]) == ("k", {"a": "1"}, "high")
    assert message["timestamp"] == "1970-01-01T00:00:00.077Z"
    assert parse_time_ms(message["appended_at"]) >= parse_time_ms(later["deliverAt"])
    path = f"/topics/{topic}/delayed/{later['partition']}/{later['offset']}"
    status, answer = shared_broker.request("GET", path)
    assert (status, answer["state"], answer["time_remaining"]) == (200, "delivered", 0)


def test_listing_is_in_order_of_time_and_paged(shared_broker: BrokerProcess, topic: str) -> None:
    delays = [50, 10, 40, 20, 30]
    results = publish(
        shared_broker, topic, *({"value": str(n), "delay": f"{n}m", "partition": n % 20 // 10} for n in delays)
    )
    _, whole = shared_broker.request("GET", f"/topics/{topic}/delayed")
    assert (whole["count"], "next_skip" in whole) == (5, False)
    order = sorted(results, key=lambda result: result["deliver_at"])
    assert [(row["partition"], row["id"]) for row in whole["messages"]] == [
        (result["partition"], result["offset"]) for result in order
    ]
    first = whole["messages"][0]
    assert first["id"] == first["offset"] == order[0]["offset"]
    assert (first["topic"], first["priority"], first["state"]) == (topic, "normal", "pending")
    assert 0 < first["time_remaining"] <= 600
    pages, skip = [], 0
    while skip is not None:
        _, page = shared_broker.request("GET", f"/topics/{topic}/delayed?limit=2&skip={skip}")
        pages.append(page["messages"])
        skip = page.get("next_skip")
    assert [len(page) for page in pages] == [2, 2, 1]
    assert [row["id"] for page in pages for row in page] == [row["id"] for row in whole["messages"]]


def test_a_cancelled_message_never_comes(shared_broker: BrokerProcess, topic: str) -> None:
    [gone, _] = publish(
        shared_broker,
        topic,
        {"value": "gone", "delay": "1s", "partition": 1},
        {"value": "kept", "delay": "1s", "partition": 1},
    )
    path = f"/topics/{topic}/delayed/1/{gone['offset']}"
    status, answer = shared_broker.request("DELETE", path)
    assert (status, answer["canceled"], answer["state"], answer["id"]) == (200, True, "cancelled", gone["offset"])
    status, answer = shared_broker.request("DELETE", path)
    assert (status, answer["code"]) == (404, "delayed_not_found")
    assert shared_broker.request("GET", path)[1]["state"] == "cancelled"
    assert [message["value"] for message in arrived(shared_broker, topic, 1)] == ["kept"]
    last = publish(shared_broker, topic, {"value": "last", "delay": "100ms", "partition": 1})[0]
    assert [message["value"] for message in arrived(shared_broker, topic, 2)] == ["kept", "last"]
    by_id = f"/topics/{topic}/delayed/{last['offset']}"
    assert shared_broker.request("DELETE", f"{by_id}?partition=1")[1]["code"] == "delayed_not_found"
    assert shared_broker.request("GET", f"{by_id}?partition=1")[1]["state"] == "delivered"
    assert shared_broker.request("GET", by_id)[1]["state"] == "delivered", "no other partition has one of this id"


def test_an_id_that_only_one_partition_has_needs_no_partition(
    shared_broker: BrokerProcess, topic: str, q, cli
) -> None:
    later = {"delay": "1h"}
    publish(shared_broker, topic, {"value": "a", "partition": 0, **later}, {"value": "b", "partition": 1, **later})
    single = publish(shared_broker, topic, {"value": "c", "partition": 1, **later})[0]["offset"]
    assert single == 1
    assert (q.delayed.get(topic, id=1).partition, q.delayed.get(topic, 1, 1).partition) == (1, 1)
    assert shared_broker.request("GET", f"/topics/{topic}/delayed/1")[1]["partition"] == 1
    assert json.loads(cli("delayed", "show", topic, "1", "-o", "json").stdout)[0]["id"] == "1:1"
    status, answer = shared_broker.request("GET", f"/topics/{topic}/delayed/0")
    assert (status, answer["code"]) == (400, "invalid_request")
    assert "(0, 1)" in answer["error"]
    with pytest.raises(InvalidRequest, match="several partitions"):
        q.delayed.cancel(topic, id=0)
    with pytest.raises(DelayedNotFound, match=f"in {topic};"):
        q.delayed.get(topic, id=7)
    with pytest.raises(InvalidRequest, match="id="):
        q.delayed.get(topic, 1)
    q.delayed.cancel(topic, id=1)
    assert shared_broker.request("GET", f"/topics/{topic}/delayed/1")[1]["state"] == "cancelled"


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/topics/none/delayed", 404),
        ("/topics/none/delayed/0/1", 404),
        ("/topics/{topic}/delayed?limit=0", 400),
        ("/topics/{topic}/delayed?skip=-1", 400),
        ("/topics/{topic}/delayed/9/1", 404),
        ("/topics/{topic}/delayed/0/1", 404),
        ("/topics/{topic}/delayed/0/x", 400),
        ("/topics/{topic}/delayed/0/99999999999999999999", 400),
        ("/topics/{topic}/delayed/0/9223372036854775807", 404),
        ("/topics/{topic}/delayed/-1/0", 400),
    ],
)
def test_what_is_not_there_or_not_meant(shared_broker: BrokerProcess, topic: str, path: str, status: int) -> None:
    assert shared_broker.request("GET", path.format(topic=topic))[0] == status


def test_bad_times_are_refused_alone(shared_broker: BrokerProcess, topic: str) -> None:
    results = publish(
        shared_broker,
        topic,
        {"value": "a", "delay": "3700d"},
        {"value": "b", "deliver_at": "9998-01-01T00:00:00Z"},
        {"value": "c", "delay": "-5s"},
        {"value": "d", "delay": "1s", "deliver_at": "2030-01-01T00:00:00Z"},
        {"value": "e", "delay": "3650d"},
    )
    assert [result.get("code") for result in results] == ["invalid_request"] * 4 + [None]


def test_stats_move(shared_broker: BrokerProcess, topic: str) -> None:
    before = shared_broker.request("GET", "/delay/stats")[1]
    [far, _] = publish(shared_broker, topic, {"value": "far", "delay": "1h"}, {"value": "near", "delay": "100ms"})
    arrived(shared_broker, topic, 1)

    def changed(name: str) -> int:
        return shared_broker.request("GET", "/delay/stats")[1][name] - before[name]

    wait_until(lambda: changed("delivered_count") == 1, SECONDS, "one more delivered")
    assert (changed("scheduled_count"), changed("pending_count")) == (2, 1)
    shared_broker.request("DELETE", f"/topics/{topic}/delayed/{far['partition']}/{far['offset']}")
    assert (changed("cancelled_count"), changed("pending_count")) == (1, 0)
    after = shared_broker.request("GET", "/delay/stats")[1]
    assert after["avg_delay"] > 0
    assert set(after["lateness"]) == {"p50", "p95", "p99", "max"}


def test_a_delayed_message_comes_now_or_at_another_time(shared_broker: BrokerProcess, q, topic: str) -> None:
    places = [q.publish(topic, b"%d" % number, delay="1h", partition=0) for number in range(3)]
    first, second, third = (place.offset for place in places)
    later_ms = int(time.time() * 1000) + 5 * 3_600_000
    path = f"/topics/{topic}/delayed/0"
    status, moved = shared_broker.request("PATCH", f"{path}/{second}", {"deliver_at": later_ms})
    assert (status, parse_time_ms(moved["deliver_at"]), moved["state"]) == (200, later_ms, "pending")
    assert [message.id for message in q.delayed.list(topic)] == [first, third, second]
    q.delayed.reschedule(topic, id=third, delay=0)
    message = next(iter(q.read(topic)))
    assert message.value == b"2"
    life = q.traces.message(topic, 0, message.offset)
    assert life.events[1].until_ms <= message.append_time < later_ms - 3_600_000
    with pytest.raises(DelayedNotFound):
        q.delayed.reschedule(topic, 0, third, delay="1h")
    assert q.delayed.reschedule_many(topic, 0, [first, second, third, 10**9], delay=0) == {first, second}
    assert {message.value for message in islice(q.read(topic), 3)} == {b"0", b"1", b"2"}
    short = q.publish(topic, b"short", delay="1h", ttl="1m", partition=0).offset
    status, refused = shared_broker.request("PATCH", f"{path}/{short}", {"delay": "2h"})
    assert (status, "expires at" in refused["error"]) == (400, True)
    for body in ({}, {"delay": "1h", "deliver_at": later_ms}, {"delay": "4000d"}, {"delay": "soon"}):
        assert shared_broker.request("PATCH", f"{path}/{short}", body)[0] == 400
    assert shared_broker.request("PATCH", f"{path}/999", {"delay": "1h"})[0] == 404


def test_the_sdk_delays_lists_and_cancels(q, topic: str) -> None:
    place = q.publish(topic, b"soon", key="k", delay="1h")
    assert place.delayed
    assert q.delayed.get(topic, place.partition, place.offset).state == "pending"
    with q.producer(topic) as out:
        futures = [out.send(b"%d" % number, delay=3600 + number, partition=0) for number in range(3)]
        bulk = out.send_many([b"x"] * 10_000, deliver_at="2031-01-01T00:00:00Z")
        assert not out.send(b"now", partition=0).result().delayed
    assert all(span.delayed for span in bulk.result())
    page = q.delayed.list(topic, limit=4)
    assert (len(page), page.total) == (4, 10_004)
    assert [message.deliver_at_ms for message in page] == sorted(message.deliver_at_ms for message in page)
    assert q.delayed.list(topic, skip=10_003)[0].deliver_at_ms == parse_time_ms("2031-01-01T00:00:00Z")
    assert q.delayed.list(topic, skip=10_004) == []
    assert [message.value for message in q.read(topic, end="latest")] == [b"now"]
    q.delayed.cancel(topic, place.partition, place.offset)
    with pytest.raises(DelayedNotFound):
        q.delayed.cancel(topic, place.partition, place.offset)
    ids = [future.result().offset for future in futures]
    assert q.delayed.cancel_many(topic, 0, [*ids, 10**9]) == set(ids)
    assert q.delayed.list(topic).total == 10_000
    q.topics.purge(topic)
    assert q.delayed.list(topic) == []
    with pytest.raises(TopicNotFound):
        q.delayed.list("none")
    with pytest.raises(InvalidRequest):
        q.publish(topic, b"v", delay="4000d")


def test_delayed_and_other_messages_of_a_producer_go_side_by_side(q, topic: str) -> None:
    with q.producer(topic, linger=0) as out:
        for number in range(50):
            out.send(b"now-%d" % number, key="k")
            out.send(b"soon-%d" % number, key="k", delay="10ms")
            out.send(b"high-%d" % number, key="k", delay="10ms", priority="high")
    found = []
    for message in q.read(topic):
        found.append(message)
        if len(found) == 150:
            break
    values = sorted(message.value for message in found)
    names = ("now", "soon", "high")
    assert values == sorted(f"{name}-{number}".encode() for name in names for number in range(50))
    assert {message.priority for message in found if message.value.startswith(b"high")} == {"high"}


def test_a_time_to_live_begins_with_the_arrival(q, topic: str) -> None:
    q.publish(topic, b"mortal", delay="200ms", ttl="1h")
    [job] = [job for _, job in zip(range(1), q.work(topic, group="g"), strict=False)]
    with job:
        assert job.value == b"mortal"


async def test_the_asynchronous_sdk_has_the_same_verbs(shared_broker: BrokerProcess, topic: str) -> None:
    async with quiver.connect_async(shared_broker.address) as q:
        places = await asyncio.gather(*(q.publish(topic, b"x", delay="1h") for _ in range(20)))
        assert all(place.delayed for place in places)
        assert len(await q.delayed.list(topic)) == 20
        await q.delayed.cancel(topic, places[0].partition, places[0].offset)
        assert (await q.delayed.get(topic, places[0].partition, places[0].offset)).state == "cancelled"


def test_the_embedded_broker_delays_too(tmp_path) -> None:
    with quiver.open(tmp_path) as q:
        q.topics.create("t", partitions=1)
        place = q.publish("t", b"far", delay="1h")
    with quiver.open(tmp_path) as q:
        assert q.delayed.get("t", 0, place.offset).state == "pending"


def test_the_command_line(cli: Cli, topic: str) -> None:
    done = cli("produce", topic, "one", "two", "--delay", "5m", "--partition", "1", "-o", "json")
    ids = [row["delayed_id"] for row in json.loads(done.stdout)]
    assert ids == ["1:0", "1:1"]
    cli("produce", topic, "--deliver-at", "2031-01-01T00:00:00Z", stdin=b"three\nfour\n")
    listed = json.loads(cli("delayed", "list", topic, "-n", "3", "-o", "json").stdout)
    assert listed["total"] == 4
    assert [row["id"] for row in listed["messages"]][:2] == ids
    assert listed["messages"][2]["deliver_at"] == "2031-01-01T00:00:00.000Z"
    table = cli("delayed", "list", topic, "-n", "1")
    assert b"1:0" in table.stdout
    assert b"3 more" in table.stderr
    assert json.loads(cli("delayed", "cancel", topic, *ids, "-o", "json").stdout) == [
        {"id": id, "cancelled": True} for id in ids
    ]
    far = [row["id"] for row in json.loads(cli("delayed", "list", topic, "-o", "json").stdout)["messages"]]
    cli("delayed", "move", topic, far[0], "--to", "2032-01-01T00:00:00Z")
    cli("delayed", "move", topic, far[1], "--to", "2h")
    listed = json.loads(cli("delayed", "list", topic, "-o", "json").stdout)["messages"]
    assert [row["id"] for row in listed] == [far[1], far[0]]
    assert b"no delayed message 0" in cli("delayed", "move", topic, "1:0", "--to", "now", fails=True).stderr
    failed = cli("delayed", "cancel", topic, "1:0", fails=True)
    assert b"no delayed message 0" in failed.stderr
    assert b"such as 0:42" in cli("delayed", "cancel", topic, "seven", fails=True).stderr


def test_a_deleted_topic_takes_its_delayed_messages_along(shared_broker: BrokerProcess, q, topic: str) -> None:
    q.publish(topic, b"old", delay="100ms", partition=0)
    q.topics.delete(topic)
    q.topics.create(topic, partitions=2)
    began = time.monotonic()
    q.publish(topic, b"new", delay="300ms", partition=0)
    assert [message["value"] for message in arrived(shared_broker, topic, 1)] == ["new"]
    assert time.monotonic() - began >= 0.29
    assert q.delayed.list(topic).total == 0


def test_more_partitions_and_other_durability_while_messages_wait(shared_broker: BrokerProcess, q) -> None:
    topic = f"t-{uuid.uuid4().hex[:8]}"
    q.topics.create(topic, partitions=1, durability="interval")
    q.publish(topic, b"a", delay="300ms")
    q.topics.alter(topic, partitions=2, durability="fsync")
    q.publish(topic, b"b", delay="300ms", partition=1)
    assert {message["value"] for message in arrived(shared_broker, topic, 2)} == {"a", "b"}


def test_the_example_of_the_documents(q) -> None:
    text = (Path(__file__).parents[3] / "docs" / "queues.md").read_text()
    [example] = [block for block in re.findall(r"```python\n(.*?)```", text, re.DOTALL) if "q.delayed" in block]
    q.topics.create("emails")
    names: dict[str, Any] = {"q": q}
    exec(example, names)
    place = names["place"]
    assert q.delayed.get("emails", place.partition, place.offset).state == "cancelled"
