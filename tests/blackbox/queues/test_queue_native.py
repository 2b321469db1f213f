"""Queues over the native protocol of the shipped program: leases, acks, waiting, hanging up, killing."""

import itertools
import socket
import struct
from collections.abc import Callable, Iterator

import pytest

import quiver
from blackbox.callers.native_wire import NativeWire
from blackbox.processes.broker_process import BrokerProcess, wait_until
from quiver.model.errors import GroupNotFound
from quiver.model.settlement import ACK, NACK, SettleRequest
from quiver.protocol import messages as m
from quiver.protocol import queue_messages as q
from quiver.protocol.packet import decode_response
from quiver.records.build import build_frame
from quiver.records.read import open_frame

MIB = 1024 * 1024
LONG_MS = 60_000
_GROUPS = (f"group-{number}" for number in itertools.count())


class Consumer(NativeWire):
    """A connection that receives and settles."""

    def create(self, name: str, **settings: object) -> int:
        answer = self.ask(m.CreateTopic(name, settings))
        assert isinstance(answer, m.TopicDescription), answer
        return answer.id

    def produce(self, topic_id: int, *values: bytes, partition: int = 0, priority: int = 2) -> int:
        frame = build_frame(list(values), timestamp_ms=1_700_000_000_000, priority=priority)  # type: ignore[arg-type]
        answer = self.ask(m.Produce(topic_id, partition, 0), frame)
        assert isinstance(answer, m.Produced), answer
        return answer.base_offset

    def begin_receive(self, topic_id: int, group: str, **options: object) -> None:
        self.send(q.Receive([topic_id], group, **options))  # type: ignore[arg-type]

    def receive(self, topic_id: int, group: str, **options: object) -> "Runs":
        self.begin_receive(topic_id, group, **options)
        return self.runs()

    def runs(self) -> "Runs":
        packet = self.packet()
        answer = decode_response(packet.message_bytes)
        assert isinstance(answer, q.Received), answer
        return Runs(answer.runs, packet.payload)

    def settle(self, runs: "Runs", action: int = ACK, **options: object) -> list[q.SettledPart]:
        parts = [
            SettleRequest(
                run.topic_id,
                run.partition,
                run.group_id,
                run.lease_id,
                action,
                [(run.start, run.end)],
                **options,  # type: ignore[arg-type]
            )
            for run in runs.runs
        ]
        answer = self.ask(q.Settle(parts))
        assert isinstance(answer, q.Settled), answer
        return answer.parts


class Runs:
    def __init__(self, runs: list[q.ReceivedRun], payload: memoryview) -> None:
        self.runs, self.frames, at = runs, list[memoryview](), 0
        for run in runs:
            self.frames.append(payload[at : at + run.length])
            at += run.length
        assert at == len(payload)

    @property
    def values(self) -> list[bytes | None]:
        return [value for frame in self.frames for value in open_frame(frame).values()]

    @property
    def attempts(self) -> set[int]:
        return {run.attempt for run in self.runs}


@pytest.fixture
def group() -> str:
    return next(_GROUPS)


@pytest.fixture
def consumers(shared_broker: BrokerProcess) -> Iterator[Callable[[], Consumer]]:
    opened: list[Consumer] = []

    def connect() -> Consumer:
        opened.append(Consumer(shared_broker.address))
        return opened[-1]

    yield connect
    for consumer in opened:
        consumer.socket.close()


@pytest.fixture
def topic_id(consumers: Callable[[], Consumer], request: pytest.FixtureRequest) -> int:
    return consumers().create(request.node.name.replace("[", ".").replace("]", ""), partitions=3)


def test_whole_frames_come_as_they_were_sent(consumers: Callable[[], Consumer], topic_id: int, group: str) -> None:
    one = consumers()
    one.produce(topic_id, b"a", b"b", b"c", partition=2)
    got = one.receive(topic_id, group)
    [run] = got.runs
    assert (run.partition, run.start, run.end, run.attempt, run.last_error) == (2, 0, 3, 1, "")
    assert run.visibility_ms == 30_000
    assert run.deadline_ms > run.first_delivered_ms
    assert got.values == [b"a", b"b", b"c"]
    opened = open_frame(got.frames[0])
    assert (list(opened.offsets()), opened.header.record_count) == ([0, 1, 2], 3)
    assert one.settle(got) == [q.SettledPart([])]
    [again] = one.settle(got)
    assert [(refused.start, refused.end, refused.code) for refused in again.refused] == [(0, 3, "lease_lost")]


def test_parts_of_a_frame_keep_their_offsets(consumers: Callable[[], Consumer], topic_id: int, group: str) -> None:
    one = consumers()
    one.produce(topic_id, *(b"%d" % number for number in range(10)))
    first = one.receive(topic_id, group, max_messages=4)
    rest = one.receive(topic_id, group)
    assert (first.values, rest.values) == ([b"0", b"1", b"2", b"3"], [b"%d" % number for number in range(4, 10)])
    assert list(open_frame(rest.frames[0]).offsets()) == list(range(4, 10))
    one.settle(first, NACK, delay_ms=0, reason="again")
    back = one.receive(topic_id, group)
    assert (back.values, back.attempts, back.runs[0].last_error) == (first.values, {2}, "again")


def test_a_message_wakes_who_waits_and_no_other(consumers: Callable[[], Consumer], topic_id: int, group: str) -> None:
    first, second, publisher = consumers(), consumers(), consumers()
    assert publisher.receive(topic_id, group).values == []  # the group is there
    first.begin_receive(topic_id, group, wait_ms=LONG_MS, max_messages=1)
    assert first.ask(m.Ping(), correlation=2) == m.Done()  # the receive has begun
    second.begin_receive(topic_id, group, wait_ms=LONG_MS, max_messages=1)
    assert second.ask(m.Ping(), correlation=2) == m.Done()
    publisher.produce(topic_id, b"one", partition=1)
    assert first.runs().values == [b"one"]
    publisher.produce(topic_id, b"two", partition=2)
    assert second.runs().values == [b"two"]


def test_connections_without_a_name_are_consumers_of_their_own(
    consumers: Callable[[], Consumer], topic_id: int, group: str
) -> None:
    one, other = consumers(), consumers()
    one.ask(m.AlterTopic("test_connections_without_a_name_are_consumers_of_their_own", {"max_unacked": 2}))
    one.produce(topic_id, *(b"%d" % number for number in range(6)))
    held = one.receive(topic_id, group)
    assert held.values == [b"0", b"1"]
    assert one.receive(topic_id, group).values == []
    assert other.receive(topic_id, group).values == [b"2", b"3"]
    assert other.receive(topic_id, group, consumer="named").values == [b"4", b"5"]


def test_who_hangs_up_while_waiting_takes_nothing_away(
    consumers: Callable[[], Consumer], topic_id: int, group: str
) -> None:
    gone, stays = consumers(), consumers()
    gone.begin_receive(topic_id, group, wait_ms=LONG_MS)
    gone.socket.shutdown(socket.SHUT_WR)
    assert gone.socket.recv(1) == b""  # the broker has noticed
    stays.begin_receive(topic_id, group, wait_ms=LONG_MS)
    consumers().produce(topic_id, b"a")
    got = stays.runs()
    assert (got.values, got.attempts) == ([b"a"], {1})


def test_what_a_connection_did_not_take_is_given_back_uncounted(
    consumers: Callable[[], Consumer], topic_id: int, group: str, shared_broker: BrokerProcess
) -> None:
    one = consumers()
    for partition in range(3):
        for _ in range(8):
            one.produce(topic_id, *(bytes(100_000) for _ in range(10)), partition=partition)
    deaf = Consumer(shared_broker.address)
    deaf.begin_receive(topic_id, group, max_bytes=32 * MIB, max_messages=1000)
    deaf.socket.recv(1)  # the answer is on its way, and never taken
    deaf.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    deaf.socket.close()
    count = 0
    while count < 240:
        got = one.receive(topic_id, group, wait_ms=LONG_MS, max_bytes=32 * MIB)
        assert got.attempts == {1}
        count += len(got.values)
        one.settle(got)
    assert count == 240


def test_a_deleted_topic_ends_the_waiting(consumers: Callable[[], Consumer], topic_id: int, group: str) -> None:
    waiting = consumers()
    waiting.begin_receive(topic_id, group, wait_ms=LONG_MS)
    assert waiting.ask(m.Ping(), correlation=2) == m.Done()
    assert consumers().ask(m.DeleteTopic("test_a_deleted_topic_ends_the_waiting")) == m.Done()
    failure = waiting.answer()
    assert isinstance(failure, m.Failure)
    assert failure.code == "topic_not_found"
    assert getattr(waiting.ask(q.Receive([topic_id], group)), "code", "") == "topic_not_found"


@pytest.mark.parametrize(
    ("options", "code"),
    [
        ({"ordering": "sideways"}, "invalid_request"),
        ({"priority": 9}, "invalid_request"),
        ({"max_messages": 0}, "invalid_request"),
        ({"wait_ms": -1}, "invalid_request"),
        ({"consumer": "x" * 300}, "invalid_request"),
        ({"visibility_ms": 10**12}, "invalid_request"),
    ],
)
def test_what_makes_no_sense_is_refused(
    consumers: Callable[[], Consumer], topic_id: int, group: str, options: dict[str, object], code: str
) -> None:
    one = consumers()
    answer = one.ask(q.Receive([topic_id], group, **options))  # type: ignore[arg-type]
    assert getattr(answer, "code", "") == code
    assert getattr(one.ask(q.Receive([], group)), "code", "") == "invalid_request"
    assert getattr(one.ask(q.Receive([topic_id], "no/name")), "code", "") == "invalid_name"
    assert getattr(one.ask(q.Receive([987_654], group)), "code", "") == "topic_not_found"


def test_depths_and_groups_show_what_there_is(
    consumers: Callable[[], Consumer], topic_id: int, group: str, shared_broker: BrokerProcess
) -> None:
    one = consumers()
    name = "test_depths_and_groups_show_what_there_is"
    one.produce(topic_id, *(b"%d" % number for number in range(10)), priority=1)
    one.produce(topic_id, b"later", partition=1)
    held = one.receive(topic_id, group, consumer="me", max_messages=4, priority=1)
    one.settle(Runs(held.runs[:1], held.frames[0]), NACK, delay_ms=LONG_MS)
    one.receive(topic_id, group, consumer="me", max_messages=2, priority=1)
    with quiver.connect(shared_broker.address) as client:
        depth = client.queues.depth(name, group)
        assert [found.group for found in client.queues.depths(name)] == [group]
        assert (depth.group, depth.ready, depth.leased, depth.retrying) == (group, 5, 2, 4)
        assert depth.ready_by_priority == [0, 4, 1, 0, 0]
        assert depth.consumers == {"me": 2}
        assert depth.oldest_age_ms >= 0
        with pytest.raises(GroupNotFound):
            client.queues.depth(name, "nobody")
        [listed] = [found for found in client.groups.list() if found.id == group]
        assert (listed.kind, listed.state, listed.members, listed.lag, listed.topics) == (
            "queue",
            "stable",
            1,
            5,
            [name],
        )
        described = client.groups.describe(group)
        assert [member.id for member in described.members] == ["me"]
        assert sum(part.lag for part in described.partitions) == 5
        client.groups.alter(group, visibility="5m", max_attempts=7)
        assert client.groups.describe(group).settings["visibility"] == "5m"
        client.groups.delete(group)
        with pytest.raises(GroupNotFound):
            client.queues.depth(name, group)


def test_a_reset_starts_over(
    consumers: Callable[[], Consumer], topic_id: int, group: str, shared_broker: BrokerProcess
) -> None:
    one = consumers()
    name = "test_a_reset_starts_over"
    one.produce(topic_id, b"a", b"b", b"c")
    held = one.receive(topic_id, group)
    one.settle(held)
    with quiver.connect(shared_broker.address) as client:
        [first, *_] = client.groups.reset(group, name, 1, dry_run=True)
        assert (first.old, first.new) == (3, 1)
        assert one.receive(topic_id, group).values == []
        client.groups.reset(group, name, 1)
    got = one.receive(topic_id, group)
    assert (got.values, got.attempts) == ([b"b", b"c"], {1})


def test_a_purge_settles_everything(
    consumers: Callable[[], Consumer], topic_id: int, group: str, shared_broker: BrokerProcess
) -> None:
    one = consumers()
    name = "test_a_purge_settles_everything"
    one.produce(topic_id, b"a", b"b", b"c")
    held = one.receive(topic_id, group, max_messages=1)
    assert one.ask(m.PurgeTopic(name)) == m.Done()
    with quiver.connect(shared_broker.address) as client:
        depth = client.queues.depth(name, group)
    assert (depth.ready, depth.leased, depth.retrying, depth.oldest_age_ms) == (0, 0, 0, 0)
    assert [refused.code for refused in one.settle(held)[0].refused] == ["lease_lost"]
    one.produce(topic_id, b"new")
    assert one.receive(topic_id, group).values == [b"new"]


def test_no_lease_and_no_ack_is_lost_by_a_kill(start_broker: Callable[..., BrokerProcess]) -> None:
    broker = start_broker()
    with Consumer(broker.address) as one:
        topic_id = one.create("jobs", partitions=2)
        for partition in range(2):
            one.produce(topic_id, *(b"%d-%d" % (partition, number) for number in range(10)), partition=partition)
        acked = one.receive(topic_id, "g", max_messages=5, visibility_ms=LONG_MS)
        assert one.settle(acked) == [q.SettledPart([])]
        short = one.receive(topic_id, "g", max_messages=3, visibility_ms=1)
        held = one.receive(topic_id, "g", max_messages=4, visibility_ms=LONG_MS)
    broker.restart(kill=True)
    with Consumer(broker.address) as one:
        found: list[bytes | None] = []
        attempts: dict[bytes | None, int] = {}
        while len(found) < 11:
            got = one.receive(topic_id, "g", wait_ms=LONG_MS, visibility_ms=LONG_MS)
            for run, frame in zip(got.runs, got.frames, strict=True):
                attempts |= dict.fromkeys(open_frame(frame).values(), run.attempt)
            found += got.values
        everything = {b"%d-%d" % (partition, number) for partition in range(2) for number in range(10)}
        assert sorted(found, key=str) == sorted(everything - set(acked.values) - set(held.values), key=str)
        assert {value for value, attempt in attempts.items() if attempt == 2} == set(short.values)
        assert one.receive(topic_id, "g").values == []
        assert one.settle(held) == [q.SettledPart([])]
    broker.restart(kill=True)
    with Consumer(broker.address) as one:
        assert one.receive(topic_id, "g").values == []


def test_a_stop_ends_the_waiting_and_gives_nothing_away(start_broker: Callable[..., BrokerProcess]) -> None:
    broker = start_broker()
    with Consumer(broker.address) as waiting:
        topic_id = waiting.create("jobs")
        waiting.begin_receive(topic_id, "g", wait_ms=LONG_MS)
        assert waiting.ask(m.Ping(), correlation=2) == m.Done()
        broker.send_signal(15)
        failure = waiting.answer()
        assert isinstance(failure, m.Failure)
        assert failure.code == "shutting_down"
    assert broker.wait_exit() == 0
    broker.start()
    with Consumer(broker.address) as one:
        one.produce(topic_id, b"a")
        got = one.receive(topic_id, "g")
        assert (got.values, got.attempts) == ([b"a"], {1})
        wait_until(lambda: one.receive(topic_id, "g").values == [], 5, "nothing is left")
