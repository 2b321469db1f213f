"""Commits, acks, resets, lost answers and kills of one group at the same time: what was answered counts."""

import socket
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from blackbox.callers.http_group import HttpGroup, values
from blackbox.processes.broker_process import BrokerProcess

PARTITIONS, EACH = 8, 3


@pytest.fixture
def group(shared_broker: BrokerProcess) -> HttpGroup:
    return HttpGroup(shared_broker, partitions=1)


def messages_of(group: HttpGroup, member: Any, count: int = 100) -> list[Any]:
    return list(group.poll(member, max_messages=count)["messages"])


def ack(group: HttpGroup, messages: list[Any]) -> Any:
    return group.call("POST", "/messages/ack", {"receipts": [message["receipt_handle"] for message in messages]})


def leave(group: HttpGroup, member: Any) -> None:
    group.post("leave", {"member_id": member["member_id"]})


def test_a_commit_that_goes_back_counts_for_the_next_owner_and_after_a_kill(broker: BrokerProcess) -> None:
    group = HttpGroup(broker, partitions=1)
    group.publish(6)
    member = group.join()
    ack(group, messages_of(group, member))
    assert group.committed() == {"0": 6}
    group.commit(member, {0: 2})
    assert group.committed() == {"0": 2}
    leave(group, member)
    after = group.join()
    held = messages_of(group, after)
    assert [message["offset"] for message in held] == [2, 3, 4, 5]
    ack(group, held[:1])
    group.commit(after, {0: 1})
    broker.kill()
    broker.start()
    assert group.committed() == {"0": 1}
    leave(group, after)
    assert [message["offset"] for message in messages_of(group, group.join())] == [1, 2, 3, 4, 5]


def test_no_commit_passes_over_an_answer_that_was_lost(group: HttpGroup) -> None:
    group.publish(6)
    member = group.join()
    path = f"/groups/{group.name}/poll?member_id={member['member_id']}&timeout=20s&max_messages=2"
    with socket.create_connection(("127.0.0.1", group.broker.http_port), timeout=20) as lost:
        lost.sendall(f"GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
        assert lost.recv(1, socket.MSG_PEEK), "the answer has come, and nobody reads it"
    second = group.poll(member, max_messages=2)
    assert (values(second), second["offsets"], second["next_offset"]) == (["v2", "v3"], {}, {})
    group.post("offsets", {"member_id": member["member_id"], "offsets": second["offsets"]})
    assert group.committed() in ({}, {"0": 0})
    leave(group, member)
    everything = group.poll(group.join(), max_messages=100)
    assert values(everything) == [f"v{number}" for number in range(6)]
    assert everything["offsets"] == {group.topic: {"0": 6}}


def test_acks_under_way_do_not_take_commits_back(group: HttpGroup) -> None:
    member = group.join()
    with ThreadPoolExecutor(2) as threads:
        for number in range(60):
            group.publish(4)
            held: list[Any] = []
            while len(held) < 4:
                held += messages_of(group, member, 4 - len(held))
            acking = threads.submit(ack, group, held[:2])
            committing = threads.submit(group.commit, member, {0: 4 * number + 4})
            assert (acking.result(60), committing.result(60)) is not None
            assert group.committed() == {"0": 4 * number + 4}


def test_a_reset_is_not_undone_by_members_that_come_meanwhile(shared_broker: BrokerProcess) -> None:
    group = HttpGroup(shared_broker, partitions=PARTITIONS)
    group.fill(EACH, PARTITIONS)
    drained(group, PARTITIONS * EACH)
    with ThreadPoolExecutor(1) as threads:
        for _ in range(5):
            path = f"/groups/{group.name}/offsets/reset"
            body = {"topic": group.topic, "to": "earliest"}
            resetting = threads.submit(group.broker.request, "POST", path, body)
            member = group.join()
            early = messages_of(group, member)
            if early:
                ack(group, early)
            status, answer = resetting.result(60)
            leave(group, member)
            expected = PARTITIONS * EACH if status == 200 else 0
            assert status in (200, 409), answer
            rest = expected - len(early)
            assert len(drained(group, rest)) == rest


def drained(group: HttpGroup, count: int) -> set[tuple[int, int]]:
    """The places of messages that a member gets and acks until there are as many, or no more come."""
    found: set[tuple[int, int]] = set()
    member = group.join()
    while messages := list(
        group.poll(member, max_messages=1000, timeout="5s" if len(found) < count else "0s")["messages"]
    ):
        ack(group, messages)
        found |= {(message["partition"], message["offset"]) for message in messages}
    leave(group, member)
    return found
