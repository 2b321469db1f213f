"""Partitions that move: members that come and go, are slow, return or are put out, and topics that change."""

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from blackbox.callers.new_topic import new_topic
from blackbox.groups.group_member import SECONDS, GroupMember, Told
from blackbox.processes.broker_process import BrokerProcess, wait_until
from quiver.model.errors import GroupProtocolMismatch, MemberFenced

SHORT = {"session_timeout": "600ms", "heartbeat": "100ms"}


@pytest.fixture
def topic(q) -> str:
    return new_topic(q, partitions=4, durability="interval")


@pytest.fixture
def join(shared_broker: BrokerProcess, topic: str) -> Iterator:
    """Starts members of the test's group, which end with the test."""
    members: list[GroupMember] = []

    def start(topics=topic, **options) -> GroupMember:
        member = GroupMember(shared_broker.address, topics, f"g-{topic}", **options)
        members.append(member)
        member.start()
        return member

    yield start
    for member in members:
        if not member.stream.is_closed and member.error is None:
            member.finish()


def publish_to_all(q, topic: str, word: bytes, partitions: int = 4) -> list[bytes]:
    values = [word + b"-%d" % number for number in range(partitions)]
    for number, value in enumerate(values):
        q.publish(topic, value, partition=number)
    return values


def rebalances(broker: BrokerProcess, group: str) -> int:
    return broker.request("GET", f"/groups/{group}/rebalance/stats")[1]["total_rebalances"]


def test_members_share_and_what_stays_is_read_on(q, topic, join):
    first = join(callbacks=True)
    first.wait_for_assignment(0, 1, 2, 3)
    publish_to_all(q, topic, b"a")
    first.wait_for_values(b"a-0", b"a-1", b"a-2", b"a-3")
    second = join(callbacks=True)
    wait_until(lambda: len(second.stream.assignment) == 2, SECONDS, "the second member's share")
    kept, moved = first.stream.assignment, second.stream.assignment
    publish_to_all(q, topic, b"b")
    first.wait_for_values(*(b"b-%d" % number for _, number in kept))
    second.wait_for_values(*(b"b-%d" % number for _, number in moved))
    second.finish()
    first.wait_for_assignment(0, 1, 2, 3)
    publish_to_all(q, topic, b"c")
    first.wait_for_values(b"c-0", b"c-1", b"c-2", b"c-3")
    assert sorted(first.values + second.values) == sorted(b"%c-%d" % (w, n) for w in b"abc" for n in range(4))
    everything = [(topic, number) for number in range(4)]
    assert first.told == [Told("assign", everything), Told("revoke", moved), Told("assign", moved)]
    assert second.told == [Told("assign", moved), Told("revoke", moved)]


def test_a_moved_partition_goes_on_behind_the_last_processed_message(q, topic, join):
    first = join()
    for n in range(40):
        q.publish(topic, b"%d" % n, partition=n % 4)
    first.wait_for_values(*(b"%d" % n for n in range(40)))
    second = join()
    wait_until(lambda: len(second.stream.assignment) == 2, SECONDS, "the second member's share")
    values = publish_to_all(q, topic, b"new")
    wait_until(lambda: set(values) <= {*first.values, *second.values}, SECONDS, "the new messages")
    assert len(second.values) == 2
    assert len(first.values) == 42


def test_on_revoke_can_still_commit_by_hand(q, topic, join):
    members: list[GroupMember] = []
    first = join(auto_commit=False, on_revoke=lambda partitions: members[0].stream.commit())
    members.append(first)
    first.wait_for_values(*publish_to_all(q, topic, b"a"))
    second = join(auto_commit=False)
    wait_until(lambda: len(second.stream.assignment) == 2, SECONDS, "the second member's share")
    moved = {number for _, number in second.stream.assignment}
    described = q.groups.describe(f"g-{topic}").partitions
    assert {part.partition: part.committed for part in described if part.partition in moved} == dict.fromkeys(
        moved, 1
    )
    values = publish_to_all(q, topic, b"b")
    second.wait_for_values(*(values[number] for number in moved))
    assert len(second.values) == 2


def test_a_stream_may_be_closed_by_another_thread_while_it_releases_partitions(topic, join):
    members: list[GroupMember] = []

    def close_elsewhere(partitions: list[tuple[str, int]]) -> None:
        if not members[0].stream.is_closed:
            closing = threading.Thread(target=members[0].stream.close)
            closing.start()
            closing.join(SECONDS)

    members.append(join(on_revoke=close_elsewhere))
    members[0].wait_for_assignment(0, 1, 2, 3)
    join().wait_for_assignment(0, 1, 2, 3)
    members[0].finish()
    assert members[0].error is None


def test_a_slow_handler_keeps_its_partitions_beyond_the_session(q, topic, join, shared_broker):
    gate = threading.Event()
    slow = join(handle=lambda message: gate.wait(SECONDS), **SHORT)
    fast = join(**SHORT)
    wait_until(lambda: len(fast.stream.assignment) == 2, SECONDS, "the second member's share")
    before = rebalances(shared_broker, f"g-{topic}")
    values = publish_to_all(q, topic, b"a")
    wait_until(lambda: slow.values, SECONDS, "a message in the slow handler")
    beats = q.groups.describe(f"g-{topic}").members[0].last_heartbeat_ms
    wait_until(
        lambda: q.groups.describe(f"g-{topic}").members[0].last_heartbeat_ms > beats + 1500, SECONDS, "2.5 sessions"
    )
    assert rebalances(shared_broker, f"g-{topic}") == before
    gate.set()
    wait_until(lambda: set(values) <= {*slow.values, *fast.values}, SECONDS, "all messages")
    assert slow.error is None


@pytest.mark.parametrize("is_at_pace", [False, True])
def test_a_slow_handler_holds_up_only_the_partition_it_works_on(q, topic, join, is_at_pace):
    """Also when it went fast before, and thousands of messages of its partition are at hand."""
    gate, stuck = threading.Event(), threading.Event()

    def handle(message) -> None:
        if message.value == b"slow":
            stuck.set()
            gate.wait(SECONDS)

    slow = join(handle=handle)
    slow.wait_for_assignment(0, 1, 2, 3)
    with q.producer(topic, batch_messages=8000) as out:
        if is_at_pace:
            out.send_many([b"quick"] * 3000, partition=0)
        out.send(b"slow", partition=0)
        out.send_many([b"late"] * 3000, partition=0)
    assert stuck.wait(SECONDS)
    others = [join() for _ in range(3)]
    wait_until(lambda: sum(len(m.stream.assignment) for m in others) == 3, SECONDS, "three partitions moved")
    reached = [part for member in others for part in member.stream.assignment]
    assert (topic, 0) not in reached
    for name, number in reached:
        q.publish(name, b"to-%d" % number, partition=number)
    wait_until(
        lambda: {b"to-%d" % number for _, number in reached} <= {v for m in others for v in m.values},
        SECONDS,
        "messages of what moved",
    )
    gate.set()
    wait_until(
        lambda: sum(v == b"late" for m in (slow, *others) for v in m.values) == 3000, SECONDS, "what was at hand"
    )
    assert slow.error is None


def test_a_partition_in_a_slow_hand_moves_when_the_message_is_done(q, topic, join):
    group, kept, moving = f"g-{topic}", f"{topic}-kept", f"{topic}-moving"
    for name in (kept, moving):
        q.topics.create(name, partitions=1)
    with q.producer(moving) as out:
        out.send_many([b"%d" % n for n in range(5000)])
    gate, stuck = threading.Event(), threading.Event()

    def handle(message) -> None:
        stuck.set()
        gate.wait(SECONDS)

    slow = join([kept, moving], handle=handle, heartbeat="50ms")
    assert stuck.wait(SECONDS)
    other = join([kept, moving])
    wait_until(lambda: slow.stream.generation == other.stream.generation, SECONDS, "word of the rebalance")
    beat = q.groups.describe(group).members[0].last_heartbeat_ms
    wait_until(lambda: q.groups.describe(group).members[0].last_heartbeat_ms > beat, SECONDS, "a heartbeat")
    assert q.groups.describe(group).state == "rebalancing"
    assert other.stream.assignment == []
    gate.set()
    other.wait_for_values(*(b"%d" % n for n in range(1, 5000)))
    assert (slow.values, slow.stream.assignment) == ([b"0"], [(kept, 0)])
    assert len(other.values) == 4999
    assert slow.error is None


def test_an_instance_that_returns_within_its_session_causes_no_rebalance(q, topic, join, shared_broker):
    static = join(instance_id="box-1")
    other = join()
    wait_until(lambda: len(other.stream.assignment) == 2, SECONDS, "the second member's share")
    had, old_id = static.stream.assignment, static.stream.member_id
    static.finish()
    before, generation = rebalances(shared_broker, f"g-{topic}"), other.stream.generation
    back = join(instance_id="box-1", callbacks=True)
    wait_until(lambda: back.stream.assignment == had, SECONDS, "the old partitions")
    assert back.stream.member_id != old_id
    values = publish_to_all(q, topic, b"a")
    back.wait_for_values(*(values[number] for _, number in had))
    assert rebalances(shared_broker, f"g-{topic}") == before
    assert other.stream.generation == generation


def test_a_second_process_with_the_same_instance_id_puts_the_first_out(topic, join):
    first = join(instance_id="box-1", callbacks=True, **SHORT)
    first.wait_for_assignment(0, 1, 2, 3)
    second = join(instance_id="box-1")
    second.wait_for_assignment(0, 1, 2, 3)
    wait_until(lambda: not first.is_alive(), SECONDS, "the end of the first")
    assert isinstance(first.error, MemberFenced)
    assert first.told[-1] == Told("lost", [(topic, number) for number in range(4)])


_STOPPED = """
import sys
import quiver
from quiver.model.errors import MemberFenced
address, topic, group = sys.argv[1:]
with quiver.connect(address) as q:
    stream = q.stream(topic, group=group, session_timeout="1500ms", on_lost=lambda parts: print("lost", len(parts)))
    try:
        for message in stream:
            print("read", message.value.decode(), flush=True)
    except MemberFenced as error:
        print(error.code, flush=True)
    try:
        stream.commit()
    except MemberFenced as error:
        print("commit", error.code, flush=True)
    try:
        next(iter(stream))
    except MemberFenced as error:
        print("again", error.code, flush=True)
"""


def test_a_process_that_was_stopped_beyond_its_session_is_told_that_it_is_out(
    q, topic, join, shared_broker, tmp_path
):
    group = f"g-{topic}"
    program = tmp_path / "member.py"
    program.write_text(_STOPPED)
    command = [sys.executable, str(program), shared_broker.address, topic, group]
    stopped = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        q.publish(topic, b"first", partition=0)
        assert stopped.stdout.readline() == "read first\n"
        os.kill(stopped.pid, signal.SIGSTOP)
        wait_until(lambda: q.groups.describe(group).state == "empty", SECONDS, "the end of the session")
        other = join()
        other.wait_for_assignment(0, 1, 2, 3)
        values = publish_to_all(q, topic, b"later")
        other.wait_for_values(*values)
        os.kill(stopped.pid, signal.SIGCONT)
        said = stopped.communicate(timeout=SECONDS)[0].splitlines()
    finally:
        stopped.kill()
        stopped.wait()
        stopped.stdout.close()
    assert [line for line in said if not line.startswith("read")] == [
        "lost 4",
        "member_fenced",
        "commit member_fenced",
        "again member_fenced",
    ]
    assert stopped.returncode == 0


def test_a_killed_process_is_replaced_when_its_session_ends(q, topic, join, shared_broker, tmp_path: Path):
    program = tmp_path / "member.py"
    program.write_text(_STOPPED)
    killed = subprocess.Popen([sys.executable, str(program), shared_broker.address, topic, f"g-{topic}"])
    try:
        wait_until(lambda: any(g.id == f"g-{topic}" for g in q.groups.list()), SECONDS, "the group")
        other = join()
        wait_until(lambda: len(other.stream.assignment) == 2, SECONDS, "a share")
    finally:
        killed.kill()
        killed.wait()
    other.wait_for_assignment(0, 1, 2, 3)
    other.wait_for_values(*publish_to_all(q, topic, b"a"))


def test_added_partitions_reach_a_running_member(q, topic, join):
    member = join(callbacks=True)
    member.wait_for_assignment(0, 1, 2, 3)
    q.topics.add_partitions(topic, 6)
    member.wait_for_values(*publish_to_all(q, topic, b"a", 6))
    assert member.told == [
        Told("assign", [(topic, number) for number in range(4)]),
        Told("assign", [(topic, 4), (topic, 5)]),
    ]


def test_new_topics_that_match_reach_a_running_member(q, topic, join):
    member = join(None, pattern=f"{topic}(-.*)?")
    member.wait_for_assignment(0, 1, 2, 3)
    q.topics.create(f"{topic}-more", partitions=1)
    q.topics.create(f"not-{topic}", partitions=1)
    q.publish(f"not-{topic}", b"unwanted")
    q.publish(f"{topic}-more", b"wanted")
    member.wait_for_values(b"wanted")
    assert b"unwanted" not in member.values
    assert (f"{topic}-more", 0) in member.stream.assignment


def test_a_deleted_topic_leaves_the_others_in_peace(q, topic, join):
    q.topics.create(f"{topic}-doomed", partitions=2)
    member = join([topic, f"{topic}-doomed"], callbacks=True, auto_commit="1ms")
    wait_until(lambda: len(member.stream.assignment) == 6, SECONDS, "all partitions")
    q.publish(f"{topic}-doomed", b"x", partition=0)
    member.wait_for_values(b"x")
    q.topics.delete(f"{topic}-doomed")
    member.wait_for_assignment(0, 1, 2, 3)
    member.wait_for_values(*publish_to_all(q, topic, b"a"))
    wait_until(lambda: len(member.told) == 2, SECONDS, "word of the loss")
    assert member.told[1] == Told("lost", [(f"{topic}-doomed", 0), (f"{topic}-doomed", 1)])


def test_joins_in_quick_succession_settle(q, topic, join):
    members = [join() for _ in range(6)]
    group = f"g-{topic}"
    wait_until(lambda: q.groups.describe(group).state == "stable", SECONDS, "a stable group")
    wait_until(lambda: sum(len(m.stream.assignment) for m in members) == 4, SECONDS, "every partition is read")
    values = publish_to_all(q, topic, b"a")
    wait_until(lambda: {v for m in members for v in m.values} == set(values), SECONDS, "every message")
    for member in members[:5]:
        member.finish()
    members[5].wait_for_assignment(0, 1, 2, 3)


@pytest.mark.parametrize("assignor", ["sticky", "range", "roundrobin"])
def test_assignors(topic, join, assignor):
    first, second = join(assignor=assignor), join(assignor=assignor)
    wait_until(lambda: len(second.stream.assignment) == len(first.stream.assignment) == 2, SECONDS, "two each")
    shares = {frozenset(number for _, number in m.stream.assignment) for m in (first, second)}
    if assignor == "range":
        assert shares == {frozenset({0, 1}), frozenset({2, 3})}
    if assignor == "roundrobin":
        assert shares == {frozenset({0, 2}), frozenset({1, 3})}
    with pytest.raises(GroupProtocolMismatch):
        join(assignor="range" if assignor != "range" else "sticky")
