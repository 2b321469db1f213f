"""Message ids through the running program: HTTP, SDK and command line, retries, restarts, settings, delays."""

import json
import uuid
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pyarrow as pa
import pytest

import quiver
from blackbox.processes.broker_process import BrokerProcess, free_port, wait_until
from blackbox.processes.cli_process import Cli
from quiver.client import Client
from quiver.model.errors import InvalidRequest, MessageIdUndecided
from quiver.structures.murmur2 import partition_for


@pytest.fixture
def topic(q: Client) -> str:
    name = f"t-{uuid.uuid4().hex[:8]}"
    q.topics.create(name, partitions=3)
    return name


def publish(broker: BrokerProcess, topic: str, *messages: dict[str, Any]) -> list[dict[str, Any]]:
    status, answer = broker.request("POST", f"/topics/{topic}/messages", {"messages": list(messages)})
    assert status == 200, answer
    results: list[dict[str, Any]] = answer["results"]
    return results


def values(q: Client, topic: str) -> list[bytes | None]:
    return sorted(message.value for message in q.read(topic, end="latest"))


def test_an_http_client_retries_safely(shared_broker: BrokerProcess, q: Client, topic: str) -> None:
    body = [{"id": f"order-{n}", "value": f"{n}"} for n in range(20)]
    first = publish(shared_broker, topic, *body)
    assert not any("duplicate" in result for result in first)
    assert [result["partition"] for result in first] == [partition_for(b"order-%d" % n, 3) for n in range(20)]
    again = publish(shared_broker, topic, *body, {"id": "order-20", "value": "20"})
    assert again[:20] == [{**result, "duplicate": True} for result in first]
    assert "duplicate" not in again[20]
    assert values(q, topic) == sorted(b"%d" % n for n in range(21))


def test_repeats_within_a_request_are_one(shared_broker: BrokerProcess, q: Client, topic: str) -> None:
    results = publish(
        shared_broker,
        topic,
        {"id": "a", "value": "1", "partition": 0},
        {"id": "a", "value": "2", "partition": 0},
        {"id": "a", "value": "3", "partition": 1},
        {"value": "4", "partition": 0},
    )
    assert results == [
        {"partition": 0, "offset": 0},
        {"partition": 0, "offset": 0, "duplicate": True},
        {"partition": 1, "offset": 0},
        {"partition": 0, "offset": 1},
    ]
    assert values(q, topic) == [b"1", b"3", b"4"]


@pytest.mark.parametrize("id", ["", "x" * 1025])
def test_an_id_has_a_length(shared_broker: BrokerProcess, q: Client, topic: str, id: str) -> None:
    [result] = publish(shared_broker, topic, {"id": id, "value": "1"})
    assert result["code"] == "invalid_request"
    with pytest.raises(InvalidRequest, match="1 to 1024 bytes"):
        q.publish(topic, b"1", id=id)


def test_sdk_and_http_know_of_each_other(shared_broker: BrokerProcess, q: Client, topic: str) -> None:
    placed = q.publish(topic, b"sdk", id="a")
    assert not placed.duplicate
    [result] = publish(shared_broker, topic, {"id": "a", "value": "http"})
    assert result == {"partition": placed.partition, "offset": placed.offset, "duplicate": True}
    keyed = q.publish(topic, b"sdk", key="k", id="b")
    assert keyed.partition == partition_for(b"k", 3)
    again = q.publish(topic, b"sdk", key="k", id=b"b")
    assert (again, again.duplicate, again.delayed) == (keyed, True, False)


def test_many_messages_tell_which_were_there(q: Client, topic: str) -> None:
    with q.producer(topic) as out:
        first = out.send_many([b"%d" % n for n in range(5)], ids=[f"{n}" for n in range(5)], partition=1)
        out.flush()
        mixed = out.send_many([b"new", b"3", b"2", b"newer"], ids=[None, "3", "2", "n"], partition=1)
        out.flush()
        again = out.send_many([b"x"] * 5, ids=[f"{n}" for n in range(5)], partition=1)
        table = pa.table({"value": ["arrow", "2"], "id": ["arrow", "2"]})
        arrow = out.send_arrow(table, partition=1)
        futures = [out.send(b"one", id="one", partition=1) for _ in range(3)]
        out.flush()
    spans = [(span.offset, span.message_count, span.duplicate) for span in first.result()]
    assert spans == [(0, 5, False)]
    spans = [(span.offset, span.message_count, span.duplicate) for span in mixed.result()]
    assert spans == [(5, 1, False), (3, 1, True), (2, 1, True), (6, 1, False)]
    assert [(span.offset, span.message_count, span.duplicate) for span in again.result()] == [(0, 5, True)]
    assert [(span.offset, span.duplicate) for span in arrow.result()] == [(7, False), (2, True)]
    results = [future.result() for future in futures]
    assert [result.duplicate for result in results] == [False, True, True]
    assert len({result.offset for result in results}) == 1
    found = [(message.offset, message.value) for message in q.read(topic, end="latest")]
    assert found[-5:] == [(4, b"4"), (5, b"new"), (6, b"newer"), (7, b"arrow"), (8, b"one")]
    with pytest.raises(InvalidRequest, match="pass ids, one per message"), q.producer(topic) as out:
        out.send_many([b"a", b"b"], id="a")
    with pytest.raises(InvalidRequest, match="2 values and 1 ids"), q.producer(topic) as out:
        out.send_many([b"a", b"b"], ids=["a"])


def test_the_command_line_names_messages(shared_broker: BrokerProcess, q: Client, topic: str) -> None:
    cli = Cli(shared_broker.address)
    words = ("produce", topic, "one", "two", "--id", "1", "--id", "2", "--output", "json")
    first, again = (json.loads(cli(*words).stdout) for _ in range(2))
    assert [row["duplicate"] for row in first] == [False, False]
    assert [row | {"duplicate": False} for row in again] == first
    assert [row["duplicate"] for row in again] == [True, True]
    assert values(q, topic) == [b"one", b"two"]
    refused = cli("produce", topic, "one", "two", "--id", "1", fails=True)
    assert b"--id once for each message" in refused.stderr


def test_the_window_is_a_setting(shared_broker: BrokerProcess, q: Client, topic: str) -> None:
    assert q.topics.describe(topic).settings["dedup_window"] == "10m"
    q.publish(topic, b"1", id="a")
    status, answer = shared_broker.request("PATCH", f"/topics/{topic}", {"dedup_window": 0})
    assert status == 200, answer
    assert not q.publish(topic, b"2", id="a").duplicate
    assert not q.publish(topic, b"3", id="a").duplicate
    q.topics.alter(topic, dedup_window="1h")
    status, answer = shared_broker.request("GET", f"/topics/{topic}")
    assert answer["config"]["dedup_window"] == "1h"
    first = q.publish(topic, b"4", id="a")
    assert q.publish(topic, b"5", id="a").duplicate
    assert not first.duplicate
    status, answer = shared_broker.request("PATCH", f"/topics/{topic}", {"dedup_window": "8d"})
    assert (status, answer["code"]) == (400, "invalid_setting")


def test_ids_outlive_kill_and_restart(start_broker: Callable[..., BrokerProcess]) -> None:
    broker = start_broker()
    expected = sorted([b"http", *(b"%d" % n for n in range(1000)), b"half", b"other half"])
    first: dict[str, tuple[Any, Any]] = {}
    with quiver.connect(broker.address) as q:
        for durability in ("fsync", "interval"):
            q.topics.create(durability, partitions=2, durability=durability)
            spans, later = send_thousand(q, durability)
            assert not any(span.duplicate for span in spans)
            send_halves(q, durability)
            first[durability] = later, publish(broker, durability, {"id": "http", "value": "http"})[0]
    for stop in (broker.kill, broker.terminate):
        stop()
        broker.start()
        with quiver.connect(broker.address) as q:
            for topic, (later, placed) in first.items():
                assert publish(broker, topic, {"id": "http", "value": "http"}) == [{**placed, "duplicate": True}]
                spans, waiting = send_thousand(q, topic)
                assert all(span.duplicate for span in spans)
                assert (waiting, waiting.duplicate, waiting.delayed) == (later, True, True)
                assert all(span.duplicate for span in send_halves(q, topic))
                assert values(q, topic) == expected


def test_a_producer_goes_on_after_a_kill(start_broker: Callable[..., BrokerProcess]) -> None:
    """What it sent in part, or not at all because it was known, leaves gaps in its numbers that a killed broker has
    forgotten."""
    broker = start_broker("--native-port", str(free_port()))
    with quiver.connect(broker.address) as q:
        q.topics.create("t", partitions=1)
        q.publish("t", b"first", id="a")
        with q.producer("t", linger=0) as out:
            out.send_many([b"1", b"a", b"2"], ids=["1", "a", None])
            out.send_many([b"a", b"1"], ids=["a", "1"])
            out.flush()
            broker.kill()
            broker.start()
            out.send_many([b"3", b"4"])
            last = out.send_many([b"5", b"1"], ids=["5", "1"])
            out.flush()
        assert [(span.offset, span.duplicate) for span in last.result()] == [(5, False), (1, True)]
        found = [message.value for message in q.read("t", end="latest")]
        assert found == [b"first", b"1", b"2", b"3", b"4", b"5"]


def send_halves(q: Client, topic: str) -> Any:
    """A frame of which one half is known, and that is stored without it the first time."""
    known = next(id for n in range(1000) if partition_for(id := b"%d" % n, 2) == 0)
    with q.producer(topic) as out:
        ids = [b"half", known, known, b"other half"]
        future = out.send_many(ids, ids=ids, partition=0)
    return future.result()


def send_thousand(q: Client, topic: str) -> tuple[Any, Any]:
    """And one that is delayed; returns where they are."""
    with q.producer(topic) as out:
        many = out.send_many([b"%d" % n for n in range(1000)], ids=[f"{n}" for n in range(1000)])
        later = out.send(b"later", id="later", delay="1h")
    return many.result(), later.result()


def test_delayed_messages_have_ids(shared_broker: BrokerProcess, q: Client, topic: str) -> None:
    [first] = publish(shared_broker, topic, {"id": "a", "value": "late", "delay": "1h"})
    assert first["delayed"] is True
    [again] = publish(shared_broker, topic, {"id": "a", "value": "late", "delay": "2h"})
    assert again == {"partition": first["partition"], "offset": first["offset"], "duplicate": True, "delayed": True}
    undelayed = q.publish(topic, b"now", id="a")
    assert (undelayed.offset, undelayed.duplicate, undelayed.delayed) == (first["offset"], True, True)
    soon = {"id": "b", "value": "soon", "delay": "50ms"}
    publish(shared_broker, topic, soon)
    publish(shared_broker, topic, soon)
    wait_until(lambda: values(q, topic) == [b"soon"], 20, "the message that was due")
    publish(shared_broker, topic, soon)
    [late] = publish(shared_broker, topic, {"id": "b", "value": "late"})
    assert (late["duplicate"], "delayed" in late) == (True, False)
    assert values(q, topic) == [b"soon"]


def test_transactions_decide_over_ids(shared_broker: BrokerProcess, q: Client, topic: str) -> None:
    with q.transaction() as tx:
        tx.publish(topic, b"1", id="a")
        tx.send_many(topic, [b"2", b"3"], ids=["a", "b"])
    assert q.publish(topic, b"4", id="b").duplicate
    with suppress(ZeroDivisionError), q.transaction() as tx:
        tx.publish(topic, b"5", id="c")
        raise ZeroDivisionError
    assert not q.publish(topic, b"6", id="c").duplicate
    key = shared_broker.request("POST", "/producers/init", {})[1]
    words = {**key, "topic": topic, "id": "d", "value": "7"}
    status, first = shared_broker.request("POST", "/transactions/publish", words)
    assert (status, first["duplicate"]) == (200, False)
    assert shared_broker.request("POST", "/transactions/publish", words)[1] == {**first, "duplicate": True}
    status, refused = shared_broker.request("POST", f"/topics/{topic}/messages", {"messages": [words]})
    assert (status, refused["code"], refused["retryable"]) == (409, MessageIdUndecided.code, True)
    assert shared_broker.request("POST", "/transactions/commit", key)[0] == 200
    [after] = publish(shared_broker, topic, {"id": "d", "value": "8"})
    assert after == {**first, "duplicate": True}
    assert values(q, topic) == [b"1", b"3", b"6", b"7"]


def test_a_dead_letter_goes_back_under_its_id(q: Client, topic: str) -> None:
    placed = q.publish(topic, b"bad", id="a")
    for job in q.work(topic, group="g"):
        if job.offset == placed.offset:
            job.reject("no")
            wait_until(lambda: list(q.dead_letters.list(topic)), 20, "the dead letter")
            q.dead_letters.redrive(topic)
        else:
            assert job.value == b"bad"
            job.ack()
            break
    again = q.publish(topic, b"bad", id="a")
    assert (again, again.duplicate) == (placed, True)
