"""Polls over HTTP: both shapes, waiting and waking, going on, large answers, clients that go away."""

import socket
import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from datetime import datetime, timedelta
from typing import Any

import httpx
import msgspec
import pytest

from blackbox.callers.http_group import HttpGroup, values
from blackbox.processes.broker_process import BrokerProcess, wait_until


@pytest.fixture
def group(shared_broker: BrokerProcess) -> HttpGroup:
    return HttpGroup(shared_broker)


@pytest.fixture
def threads() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(4) as pool:
        yield pool


def poll_in_background(threads: ThreadPoolExecutor, group: HttpGroup, member: Any, **query: Any) -> "Future[Any]":
    """Returns when the poll waits at the broker."""
    with a_poll_arrives(group, member):
        return threads.submit(group.poll, member, **query)


@contextmanager
def a_poll_arrives(group: HttpGroup, member: Any) -> Iterator[None]:
    """Ends when the broker has a poll that began inside: it counts as a heartbeat."""
    before, began = last_heartbeat(group, member) + timedelta(milliseconds=10), time.monotonic()
    # The times that are compared are right to a few milliseconds.
    wait_until(lambda: time.monotonic() > began + 0.02, 5, "the clock goes on")
    yield
    wait_until(lambda: last_heartbeat(group, member) > before, 20, "the poll is there")


def last_heartbeat(group: HttpGroup, member: Any) -> datetime:
    [one] = [one for one in group.get()["members"] if one["id"] == member["member_id"]]
    return datetime.fromisoformat(one["last_heartbeat"])


def test_messages_by_partition_and_as_a_list(group: HttpGroup) -> None:
    messages = [
        {"key": "k", "value": {"id": 1}, "partition": 2, "headers": {"h": "x"}, "timestamp": 1_700_000_000_000}
    ]
    group.call("POST", f"/topics/{group.topic}/messages", {"messages": messages})
    group.publish(2, partition=1)
    member = group.join()
    polled = group.poll(member, limit=100)
    assert set(polled["messages"]) == {"1", "2"}
    [message] = polled["messages"]["2"]
    assert message.pop("appended_at")
    assert message.pop("first_delivered") < message.pop("deadline")
    assert message.pop("receipt_handle").startswith(f"{group.topic}:2:0:1:")
    assert message == {
        "topic": group.topic,
        "partition": 2,
        "offset": 0,
        "timestamp": "2023-11-14T22:13:20.000Z",
        "priority": "normal",
        "key": "k",
        "value": '{"id": 1}',
        "headers": {"h": "x"},
        "attempt": 1,
    }
    assert polled["next_offset"] == {"1": 2, "2": 1}
    assert polled["offsets"] == {group.topic: {"1": 2, "2": 1}}
    assert polled["generation"] == 1
    group.post("offsets", {"member_id": member["member_id"], "offsets": polled["offsets"], "generation": 1})
    group.publish(3)
    flat = group.poll(member, max_messages=2)
    assert [(one["partition"], one["offset"]) for one in flat["messages"]] == [(0, 0), (0, 1)]
    assert flat["next_offset"] == {"0": 2}
    assert values(group.poll(member, max_messages=2)) == ["v2"]
    assert group.poll(member, max_messages=2)["messages"] == []
    assert group.poll(member)["messages"] == {}


def test_topics_with_the_same_partition_numbers(group: HttpGroup) -> None:
    other = HttpGroup(group.broker, partitions=1)
    group.publish(1, value="mine")
    other.publish(2, value="theirs")
    member = group.join(topics=[group.topic, other.topic])
    polled = group.poll(member)
    assert {(one["topic"], one["value"]) for one in polled["messages"]["0"]} == {
        (group.topic, "mine0"),
        (other.topic, "theirs0"),
        (other.topic, "theirs1"),
    }
    assert polled["offsets"] == {group.topic: {"0": 1}, other.topic: {"0": 2}}
    assert polled["next_offset"] == {}


def test_a_waiting_poll_wakes_at_once(group: HttpGroup, threads: ThreadPoolExecutor) -> None:
    member = group.join()
    # Without a timeout a poll waits for 30 s.
    waiting = poll_in_background(threads, group, member, timeout=None)
    assert not waiting.done()
    group.publish(1, partition=3)
    assert values(waiting.result(15)) == ["v0"]


def test_a_waiting_poll_takes_over_what_others_leave(group: HttpGroup, threads: ThreadPoolExecutor) -> None:
    group.fill(1)
    first, second = group.join(cooperative=True), group.join(cooperative=True)
    assert len(values(group.poll(first)) + values(group.poll(second))) == 4
    group.commit(first, dict.fromkeys(group.assigned(first), 1))
    waiting = poll_in_background(threads, group, second, timeout="60s")
    group.publish(1, partition=group.assigned(first)[0], value="late")
    group.post("leave", {"member_id": first["member_id"]})
    polled = waiting.result(30)
    assert values(polled) == ["late0"]
    assert len(polled["assigned_partitions"]) == 4


def test_a_poll_answers_before_its_timeout(group: HttpGroup) -> None:
    member = group.join()
    began = time.monotonic()
    assert group.poll(member, timeout="500ms")["messages"] == {}
    assert time.monotonic() - began > 0.3


def test_a_member_that_is_put_out_while_it_waits_is_told(group: HttpGroup, threads: ThreadPoolExecutor) -> None:
    member = group.join(instance_id="box")
    waiting = poll_in_background(threads, group, member, timeout="60s", status=409)
    group.join(instance_id="box")
    assert waiting.result(30)["code"] == "member_fenced"


def test_two_polls_of_a_member_share_the_messages(group: HttpGroup, threads: ThreadPoolExecutor) -> None:
    group.publish(40)
    member = group.join()
    polls = [threads.submit(group.poll, member, max_messages=10) for _ in range(4)]
    seen = [value for poll in polls for value in values(poll.result(30))]
    assert sorted(seen) == sorted(f"v{number}" for number in range(40))


def test_messages_for_a_client_that_went_away_are_not_lost(group: HttpGroup) -> None:
    member = group.join()
    path = f"/groups/{group.name}/poll?member_id={member['member_id']}"
    with socket.create_connection(("127.0.0.1", group.broker.http_port)) as gone:
        with a_poll_arrives(group, member):
            gone.sendall(f"GET {path} HTTP/1.1\r\nhost: localhost\r\n\r\n".encode())
        gone.shutdown(socket.SHUT_WR)
        assert gone.recv(1) == b""
    group.publish(1)
    assert values(group.poll(member, timeout="20s")) == ["v0"]


def test_a_partition_that_returns_begins_where_the_group_is(group: HttpGroup) -> None:
    group.fill(4)
    first = group.join(cooperative=True)
    group.poll(first, max_messages=1)
    second = group.join(cooperative=True)
    asked = group.beat(first, cooperative=True)["partitions_to_revoke"]
    group.post("revoke", {"member_id": first["member_id"], "revoked_partitions": asked})
    theirs = group.assigned(second)
    assert len(values(group.poll(second))) == 8
    group.commit(second, dict.fromkeys(theirs, 3))
    group.post("leave", {"member_id": second["member_id"]})
    again = [value for value in values(group.poll(first)) if int(value[0]) in theirs]
    assert sorted(again) == sorted(f"{number}:3" for number in theirs)


@pytest.mark.parametrize("query", [{"limit": 5000}, {"max_messages": 5000}])
@pytest.mark.parametrize("accept", ["application/json", "application/msgpack"])
def test_large_answers(group: HttpGroup, query: dict[str, int], accept: str) -> None:
    group.publish(600, partition=1, value="é" * 500)
    group.publish(600, partition=3)
    member = group.join()
    with httpx.Client(base_url=group.broker.http, timeout=60) as http:
        fields = {"member_id": member["member_id"], "timeout": "0s", **query}
        answer = http.get(f"/groups/{group.name}/poll", params=fields, headers={"accept": accept})
    assert answer.status_code == 200
    decode = msgspec.json.decode if accept == "application/json" else msgspec.msgpack.decode
    polled = decode(answer.content)
    shape = list if "max_messages" in query else dict
    assert isinstance(polled["messages"], shape)
    expected = [f"{'é' * 500}{number}" for number in range(600)] + [f"v{number}" for number in range(600)]
    assert sorted(values(polled)) == sorted(expected)
    assert polled["offsets"] == {group.topic: {"1": 600, "3": 600}}
    assert polled["next_offset"] == {"1": 600, "3": 600}


def test_polls_that_make_no_sense(group: HttpGroup) -> None:
    member = group.join()
    group.get("/poll", status=400)
    for query in ({"timeout": "soon"}, {"limit": 0}, {"limit": "many"}, {"max_messages": -1}):
        assert group.poll(member, status=400, **query)["code"] == "invalid_request"
    assert group.poll({"member_id": "nobody"}, status=404)["code"] == "member_not_found"
    group.call("GET", "/groups/no-such/poll?member_id=a", status=404)


def test_a_waiting_poll_is_told_of_a_shutdown(broker: BrokerProcess, threads: ThreadPoolExecutor) -> None:
    group = HttpGroup(broker)
    member = group.join()
    waiting = poll_in_background(threads, group, member, timeout="60s", status=503)
    assert broker.terminate() == 0
    assert waiting.result(30)["code"] == "shutting_down"
