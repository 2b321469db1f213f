"""Members that poll over HTTP and ack single messages: leases and the group's committed offset go together."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

import quiver
from blackbox.callers.http_group import HttpGroup, values
from blackbox.processes.broker_process import BrokerProcess


@pytest.fixture
def group(shared_broker: BrokerProcess) -> HttpGroup:
    return HttpGroup(shared_broker, partitions=1)


def settle(group: HttpGroup, action: str, message: Any, *, status: int = 200, **fields: Any) -> Any:
    body = {"receipt_handle": message["receipt_handle"], **fields}
    return group.call("POST", f"/messages/{action}", body, status=status)


def polled(group: HttpGroup, member: Any, **query: Any) -> list[Any]:
    return list(group.poll(member, max_messages=100, **query)["messages"])


def short_visibility(group: HttpGroup, visibility: str = "300ms") -> None:
    group.call("PATCH", f"/groups/{group.name}", {"visibility": visibility, "backoff": "10ms"})


def test_acks_advance_the_committed_offset_over_the_gapless_run(group: HttpGroup) -> None:
    group.publish(4)
    messages = polled(group, group.join())
    later = settle(group, "ack", messages[1])
    assert (later["committed_offset"], later["offset_advanced"]) == (0, False)
    assert group.committed() in ({}, {"0": 0})
    first = settle(group, "ack", messages[0])
    assert (first["committed_offset"], first["offset_advanced"]) == (2, True)
    assert group.committed() == {"0": 2}
    assert settle(group, "ack", messages[0], status=410)["code"] == "lease_lost"


def test_what_is_neither_acked_nor_committed_comes_again(group: HttpGroup) -> None:
    group.publish(4)
    member = group.join()
    short_visibility(group)
    first = polled(group, member)
    assert [message["offset"] for message in first] == [0, 1, 2, 3]
    settle(group, "ack", first[0])
    settle(group, "ack", first[2])
    again = polled(group, member, timeout="20s")
    assert [(message["offset"], message["attempt"]) for message in again] == [(1, 2), (3, 2)]
    assert settle(group, "ack", first[1], status=410)["code"] == "lease_lost"


def test_a_commit_settles_everything_below_it(group: HttpGroup) -> None:
    group.publish(4)
    member = group.join()
    messages = polled(group, member)
    group.commit(member, {0: 3})
    assert settle(group, "ack", messages[1], status=410)["code"] == "lease_lost"
    assert settle(group, "ack", messages[3])["committed_offset"] == 4


def test_a_nack_comes_again_and_holds_up_nothing(group: HttpGroup) -> None:
    group.publish(2)
    member = group.join()
    short_visibility(group, "30s")
    messages = polled(group, member)
    settle(group, "nack", messages[0], reason="not now", delay="10ms")
    settle(group, "ack", messages[1])
    group.publish(1)
    seen: dict[int, Any] = {}
    while len(seen) < 2:
        seen |= {message["offset"]: message for message in polled(group, member, timeout="20s")}
    assert sorted(seen) == [0, 2]
    assert (seen[0]["attempt"], seen[0]["last_error"]) == (2, "not now")


def test_a_reject_goes_to_the_dead_letters_and_expiry_does_not(group: HttpGroup) -> None:
    group.publish(2)
    member = group.join()
    short_visibility(group, "50ms")
    group.call("PATCH", f"/groups/{group.name}", {"max_attempts": 1})
    attempts = 0
    while attempts < 4:
        messages = polled(group, member, timeout="20s")
        attempts = max((message["attempt"] for message in messages), default=0)
    group.call("PATCH", f"/groups/{group.name}", {"visibility": "30s"})
    while len(messages := polled(group, member, timeout="20s")) < 2:
        pass
    rejected = settle(group, "reject", messages[0], reason="broken")
    assert rejected["dlq_topic"] == f"{group.topic}.dlq"
    [dead_letter] = group.call("GET", f"/topics/{group.topic}/dlq")["messages"]
    assert dead_letter["original"]["offset"] == messages[0]["offset"]


def test_who_takes_over_gets_what_the_other_held(group: HttpGroup) -> None:
    group.publish(3)
    first = group.join()
    held = polled(group, first)
    settle(group, "ack", held[0])
    group.post("leave", {"member_id": first["member_id"]})
    second = group.join()
    taken_over = polled(group, second, timeout="20s")
    assert [message["offset"] for message in taken_over] == [1, 2]
    assert settle(group, "ack", held[1], status=410)["code"] == "lease_lost"


def test_a_reset_starts_over(group: HttpGroup) -> None:
    group.publish(3)
    member = group.join()
    for message in polled(group, member):
        settle(group, "ack", message)
    assert group.committed() == {"0": 3}
    group.post("leave", {"member_id": member["member_id"]})
    group.post("offsets/reset", {"topic": group.topic, "to": "earliest"})
    assert [message["offset"] for message in polled(group, group.join(), timeout="20s")] == [0, 1, 2]


def test_many_receipts_at_once_each_by_itself(group: HttpGroup) -> None:
    group.publish(5)
    messages = polled(group, group.join())
    receipts = [message["receipt_handle"] for message in messages]
    settle(group, "ack", messages[1])
    body = {"receipts": [*receipts, receipts[0]]}
    results = group.call("POST", "/messages/ack", body)["results"]
    assert [result["success"] for result in results] == [True, False, True, True, True, False]
    assert {result["code"] for result in results if not result["success"]} == {"lease_lost"}
    assert group.committed() == {"0": 5}


def test_a_longer_lease_is_not_delivered_again(group: HttpGroup) -> None:
    group.publish(2)
    member = group.join()
    short_visibility(group)
    first, second = polled(group, member)
    assert settle(group, "visibility", first, timeout="1h")["new_deadline"] > first["deadline"]
    [again] = polled(group, member, timeout="20s")
    assert again["offset"] == second["offset"]
    assert settle(group, "ack", first)["committed_offset"] == 1


def test_a_waiting_poll_gets_what_is_given_back_meanwhile(group: HttpGroup) -> None:
    group.publish(1)
    member = group.join()
    [message] = polled(group, member)
    with ThreadPoolExecutor(1) as threads:
        waiting = threads.submit(polled, group, member, timeout="60s")
        settle(group, "nack", message, delay="0s")
        [again] = waiting.result(30)
    assert (again["offset"], again["attempt"]) == (0, 2)


def test_members_of_the_sdk_go_on_where_acks_have_brought_the_group(group: HttpGroup) -> None:
    group.publish(4)
    member = group.join(cooperative=True)
    for message in polled(group, member)[:2]:
        settle(group, "ack", message)
    group.post("leave", {"member_id": member["member_id"]})
    address = f"127.0.0.1:{group.broker.native_port}"
    with quiver.connect(address) as q, q.stream(group.topic, group=group.name) as stream:
        assert next(iter(stream)).offset == 2
        stream.commit()
    again = group.join(cooperative=True)
    assert [message["offset"] for message in polled(group, again, timeout="20s")] == [3]


def test_leases_and_acks_outlive_a_killed_broker(start_broker: Callable[..., BrokerProcess]) -> None:
    broker = start_broker()
    group = HttpGroup(broker, partitions=1)
    group.publish(4)
    member = group.join()
    messages = polled(group, member)
    settle(group, "ack", messages[0])
    settle(group, "ack", messages[3])
    broker.restart(kill=True)
    assert values(group.poll(member, timeout="0s")) == []
    assert settle(group, "ack", messages[1])["committed_offset"] == 2
    assert settle(group, "ack", messages[2])["committed_offset"] == 4
    assert group.committed() == {"0": 4}
