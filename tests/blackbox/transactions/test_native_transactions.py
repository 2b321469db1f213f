"""Transactions on the native port, packet by packet, through the real program."""

import itertools
from collections.abc import Iterator
from typing import Any

import pytest

from blackbox.callers.native_wire import NativeWire
from blackbox.processes.broker_process import BrokerProcess
from quiver.protocol import messages as m
from quiver.protocol import queue_messages as q
from quiver.protocol import transaction_messages as t
from quiver.protocol.packet import decode_response
from quiver.records.build import build_frame
from quiver.records.read import open_frame, split_frames

_NAMES = (f"native-{number}" for number in itertools.count())


class Client:
    """One connection, with words for transactions."""

    def __init__(self, address: str) -> None:
        self.wire = NativeWire(address)

    def ask(self, message: m.Message, payload: bytes = b"") -> Any:
        return self.wire.ask(message, payload)

    def topic(self, partitions: int = 1) -> int:
        answer: m.TopicDescription = self.ask(m.CreateTopic(next(_NAMES), {"partitions": partitions}))
        return answer.id

    def init(self, *words: Any) -> t.ProducerKey:
        found: m.ProducerIdentity = self.ask(t.InitTransactions(*words))
        return t.ProducerKey(found.producer_id, found.epoch)

    def send(self, key: t.ProducerKey, topic: int, partition: int, *values: bytes, sequence: int = 0) -> Any:
        frame = build_frame(
            list(values),
            timestamp_ms=1,
            producer_id=key.producer_id,
            producer_epoch=key.epoch,
            base_sequence=sequence,
            transactional=True,
        )
        return self.ask(m.Produce(topic, partition, 0), frame)

    def commit(self, *keys: t.ProducerKey, **options: Any) -> Any:
        return self.ask(t.CommitTransaction(list(keys), **options))

    def abort(self, *keys: t.ProducerKey) -> Any:
        return self.ask(t.AbortTransaction(list(keys)))

    def fetch(self, topic: int, partition: int, *, committed: bool = True) -> tuple[m.FetchedPart, list[bytes]]:
        """As a client reads: what was aborted and control frames are left out."""
        parts = [m.FetchPart(topic, partition, 0, 1 << 20)]
        self.wire.send(m.Fetch(parts, max_wait_ms=0, read_committed=committed))
        packet = self.wire.packet()
        answer = decode_response(packet.message_bytes)
        assert isinstance(answer, m.Fetched)
        [part] = answer.parts
        return part, visible_values(part, packet.payload)


def visible_values(part: m.FetchedPart, data: memoryview) -> list[bytes]:
    waiting, aborted = list(part.aborted), set[int]()
    found: list[bytes] = []
    for position, header in split_frames(data):
        while waiting and waiting[0][1] <= header.base_offset:
            aborted.add(waiting.pop(0)[0])
        if header.is_control:
            aborted.discard(header.producer_id)
        elif not (header.is_transactional and header.producer_id in aborted):
            found += [value or b"" for value in open_frame(data, position).values()]
    return found


@pytest.fixture
def client(shared_broker: BrokerProcess) -> Iterator[Client]:
    client = Client(shared_broker.address)
    yield client
    client.wire.socket.close()


def code_of(answer: Any) -> str:
    assert isinstance(answer, m.Failure), answer
    return answer.code


def test_a_transaction_from_the_first_frame_to_the_commit(client: Client) -> None:
    topic = client.topic(2)
    key = client.init("native", 5000)
    assert client.send(key, topic, 0, b"a", b"b") == m.Produced(0, pytest.approx(0, abs=1e15))
    assert client.send(key, topic, 0, b"a", b"b").duplicate
    client.send(key, topic, 1, b"c")
    part, values = client.fetch(topic, 0)
    assert (part.last_stable, part.high_watermark, values) == (0, 2, [])
    assert client.fetch(topic, 0, committed=False)[1] == [b"a", b"b"]
    info = client.ask(t.DescribeTransaction("native")).info
    assert (info.state, len(info.partitions), info.timeout_ms) == ("open", 2, 5000)
    ended = client.commit(key)
    assert ended == t.TransactionEnded(True, [t.ProducerKey(key.producer_id, key.epoch + 1)])
    assert (client.fetch(topic, 0)[1], client.fetch(topic, 1)[1]) == ([b"a", b"b"], [b"c"])
    assert client.ask(m.ListOffsets([m.OffsetPart(topic, 0, m.Position("latest", 0))])).offsets[0].offset == 3


def test_a_commit_that_comes_late_is_refused_when_the_next_has_begun(client: Client) -> None:
    """As if a proxy had held it back, or sent it twice."""
    topic = client.topic()
    first = client.init("delayed")
    client.send(first, topic, 0, b"aborted")
    [second] = client.abort(first).producers
    client.send(second, topic, 0, b"not yet")
    assert code_of(client.commit(first)) == "producer_fenced"
    assert client.fetch(topic, 0)[1] == []
    [third] = client.commit(second).producers
    client.send(third, topic, 0, b"open")
    assert client.commit(second) == t.TransactionEnded(True, [third], True)
    assert code_of(client.abort(second)) == "producer_fenced"
    assert code_of(client.send(second, topic, 0, b"late", sequence=1)) == "producer_fenced"
    assert client.fetch(topic, 0)[1] == [b"not yet"]


def test_what_was_aborted_among_others_is_left_out(client: Client) -> None:
    topic = client.topic()
    one, two = client.init(), client.init()
    for number in range(3):
        client.send(one, topic, 0, b"kept %d" % number)
        client.send(two, topic, 0, b"never")
        [two] = client.abort(two).producers
        [one] = client.commit(one).producers
    part, values = client.fetch(topic, 0)
    assert values == [b"kept 0", b"kept 1", b"kept 2"]
    assert [producer for producer, _ in part.aborted] == [two.producer_id] * 3


def test_an_instance_on_another_connection_takes_over(client: Client, shared_broker: BrokerProcess) -> None:
    topic = client.topic()
    zombie = client.init("shared id")
    client.send(zombie, topic, 0, b"zombie")
    other = Client(shared_broker.address)
    heir = other.init("shared id")
    assert (heir.producer_id, heir.epoch) == (zombie.producer_id, zombie.epoch + 1)
    for answer in (
        client.commit(zombie),
        client.abort(zombie),
        client.send(zombie, topic, 0, b"again", sequence=1),
        client.ask(t.BeginTransaction(zombie.producer_id, zombie.epoch)),
        client.ask(m.InitProducer(zombie.producer_id, zombie.epoch)),
    ):
        assert code_of(answer) == "producer_fenced"
    other.send(heir, topic, 0, b"heir")
    other.commit(heir)
    assert client.fetch(topic, 0)[1] == [b"heir"]
    other.wire.socket.close()


def test_acks_and_offsets_in_the_commit_itself(client: Client) -> None:
    source, target = client.topic(), client.topic()
    client.ask(m.Produce(source, 0, 0), build_frame([b"1", b"2"], timestamp_ms=1))
    received: q.Received = client.ask(q.Receive([source], f"queue-{source}"))
    [run] = received.runs
    key = client.init()
    client.send(key, target, 0, b"out")
    acks = [t.LeasedAcks(source, 0, run.group_id, run.lease_id, [(run.start, run.end)])]
    offsets = [t.GroupOffsetCommit(f"stream-{source}", [t.CommitPart(source, 0, 2)])]
    [key] = client.commit(key, offsets=offsets, acks=acks).producers
    client.send(key, target, 0, b"twice")
    assert code_of(client.commit(key, acks=acks)) == "lease_lost"
    assert client.ask(q.Receive([source], f"queue-{source}")) == q.Received([])
    assert client.fetch(target, 0)[1] == [b"out"]
    client.abort(key)


def test_stats_and_lists(client: Client) -> None:
    key = client.init()
    client.ask(t.BeginTransaction(key.producer_id, key.epoch))
    listed: t.TransactionList = client.ask(t.ListTransactions())
    assert (key.producer_id, key.epoch) in [(info.producer_id, info.epoch) for info in listed.transactions]
    before: t.TransactionStats = client.ask(t.GetTransactionStats())
    client.abort(key)
    after: t.TransactionStats = client.ask(t.GetTransactionStats())
    assert (after.aborted, after.active) == (before.aborted + 1, before.active - 1)
    assert code_of(client.ask(t.DescribeTransaction("nobody"))) == "transaction_not_found"
