"""The native port of the shipped program: frames through sendfile, and clients that misbehave in every way."""

import os
import random
import socket
import struct
from collections.abc import Callable

import pytest

from blackbox.callers.native_wire import NativeWire
from blackbox.processes.broker_process import BrokerProcess, wait_until
from quiver.protocol import messages as m
from quiver.protocol.packet import decode_response, encode_packet
from quiver.protocol.preface import PREFACE
from quiver.records.build import build_frame
from quiver.records.read import open_frame, split_frames

MIB = 1024 * 1024
TLS_HELLO = bytes.fromhex("1603010200010001fc0303") + bytes(506)


@pytest.fixture
def topic(shared_broker: BrokerProcess, request: pytest.FixtureRequest) -> m.TopicDescription:
    """A topic of one partition for this test alone."""
    name = "".join(each if each.isalnum() else "-" for each in request.node.name)[:200]
    with NativeWire(shared_broker.address) as wire:
        answer = wire.ask(m.CreateTopic(name, {"partitions": 1, "durability": "interval"}))
    assert isinstance(answer, m.TopicDescription), answer
    return answer


def frame_of(*values: bytes) -> bytes:
    return build_frame(list(values), timestamp_ms=1_700_000_000_000)


def produce(wire: NativeWire, topic: m.TopicDescription, *values: bytes) -> int:
    answer = wire.ask(m.Produce(topic.id, 0, 1), frame_of(*values))
    assert isinstance(answer, m.Produced), answer
    return answer.base_offset


def assert_healthy(broker: BrokerProcess, topic: m.TopicDescription) -> None:
    """The port still takes a message and gives it back, and the broker calls itself ready."""
    with NativeWire(broker.address) as wire:
        offset = produce(wire, topic, b"still here")
        wire.send(m.Fetch([m.FetchPart(topic.id, 0, offset, MIB)]))
        payload = wire.packet().payload
        assert open_frame(payload).values() == [b"still here"]
    assert broker.request("GET", "/readyz")[0] == 200


def test_frames_come_back_byte_for_byte_from_any_offset(
    shared_broker: BrokerProcess, topic: m.TopicDescription
) -> None:
    generator = random.Random(7)
    frames = [[generator.randbytes(generator.randrange(3_000)) for _ in range(20)] for _ in range(100)]
    with NativeWire(shared_broker.address) as wire:
        for number, values in enumerate(frames):
            assert produce(wire, topic, *values) == number * 20
        for start in (0, 1, 19, 20, 777, 1999):
            read: dict[int, bytes | None] = {}
            while len(read) < 2000 - start:
                wire.send(m.Fetch([m.FetchPart(topic.id, 0, start + len(read), 100_000)]))
                packet = wire.packet()
                [part] = parts_of(packet.message_bytes)
                assert (part.length, part.high_watermark) == (len(packet.payload), 2000)
                for position, _ in split_frames(packet.payload):
                    frame = open_frame(packet.payload, position)
                    read |= {
                        offset: value
                        for offset, value in zip(frame.offsets(), frame.values(), strict=True)
                        if offset >= start
                    }
            assert list(read) == list(range(start, 2000))
            assert list(read.values()) == [value for values in frames for value in values][start:]


def parts_of(message_bytes: memoryview) -> list[m.FetchedPart]:
    answer = decode_response(message_bytes)
    assert isinstance(answer, m.Fetched), answer
    return answer.parts


@pytest.mark.parametrize(
    ("start", "words"),
    [
        (TLS_HELLO, "TLS"),
        (b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n", "HTTP"),
        (b"\x00\x00\x00\x21\x00\x12\x00\x04 a Kafka client", "QUIVER"),
        (random.Random(3).randbytes(100_000), "QUIVER"),
    ],
)
def test_a_wrong_protocol_is_told_so(
    shared_broker: BrokerProcess, topic: m.TopicDescription, start: bytes, words: str
) -> None:
    with NativeWire(shared_broker.address, greet=False) as wire:
        wire.socket.sendall(start)
        packet = wire.packet()
        failure = decode_response(packet.message_bytes)
        assert isinstance(failure, m.Failure)
        assert (packet.correlation, failure.code) == (0, "protocol_error")
        assert words in failure.message
        with pytest.raises(ConnectionError):
            wire.packet()
    assert_healthy(shared_broker, topic)


def test_garbage_behind_a_good_handshake(shared_broker: BrokerProcess, topic: m.TopicDescription) -> None:
    generator = random.Random(11)
    for _ in range(50):
        with NativeWire(shared_broker.address) as wire:
            body = generator.randbytes(generator.randrange(200))
            # Half of them have a plausible prefix, so that the garbage reaches the message decoder.
            head = struct.pack("<II", len(body) + 4, 5) if generator.random() < 0.5 else b""
            wire.socket.sendall(head + body)
            wire.socket.shutdown(socket.SHUT_WR)
            while wire.socket.recv(65536):
                pass
    assert_healthy(shared_broker, topic)


@pytest.mark.parametrize("length", [64 * MIB + 1, 2**31, 2**32 - 1])
def test_an_oversized_length_is_refused_at_once(
    shared_broker: BrokerProcess, topic: m.TopicDescription, length: int
) -> None:
    with NativeWire(shared_broker.address) as wire:
        wire.socket.sendall(struct.pack("<III", length, 9, 5))
        packet = wire.packet()
        failure = decode_response(packet.message_bytes)
        assert isinstance(failure, m.Failure)
        assert (packet.correlation, failure.code) == (9, "request_too_large")
    assert_healthy(shared_broker, topic)


def test_claimed_lengths_take_no_memory(shared_broker: BrokerProcess, topic: m.TopicDescription) -> None:
    before = shared_broker.resident_bytes()
    wires = [NativeWire(shared_broker.address) for _ in range(100)]
    for wire in wires:
        wire.socket.sendall(struct.pack("<III", 60 * MIB, 1, 5) + b"\x95\x02\x01\x00\x01")
    assert_healthy(shared_broker, topic)
    assert shared_broker.resident_bytes() - before < 100 * MIB
    for wire in wires:
        wire.socket.close()


def test_half_requests_leave_nothing_behind(shared_broker: BrokerProcess, topic: m.TopicDescription) -> None:
    frame = frame_of(b"never whole" * 20)
    whole = encode_packet(5, m.Produce(topic.id, 0, 1), len(frame)) + frame
    for length in range(1, len(whole)):
        with NativeWire(shared_broker.address) as wire:
            wire.socket.sendall(whole[:length])
    with NativeWire(shared_broker.address) as wire:
        described = wire.ask(m.DescribeTopic(topic.name))
        assert isinstance(described, m.TopicDescription)
        assert described.offsets == [(0, 0)]
    assert_healthy(shared_broker, topic)


def test_a_thousand_requests_in_one_write(shared_broker: BrokerProcess, topic: m.TopicDescription) -> None:
    with NativeWire(shared_broker.address) as wire:
        frames = [frame_of(b"%d" % number) for number in range(1000)]
        wire.socket.sendall(
            b"".join(
                encode_packet(number + 1, m.Produce(topic.id, 0, 1), len(frame)) + frame
                for number, frame in enumerate(frames)
            )
        )
        answers = {
            packet.correlation: decode_response(packet.message_bytes) for packet in (wire.packet() for _ in frames)
        }
    assert [answers[number + 1].base_offset for number in range(1000)] == list(range(1000))  # type: ignore[union-attr]


def test_a_client_that_does_not_read_is_dropped_and_disturbs_nobody(
    start_broker: Callable[..., BrokerProcess],
) -> None:
    broker = start_broker("--slow-client-timeout", "1s")
    with NativeWire(broker.address) as wire:
        topic = wire.ask(m.CreateTopic("big", {"partitions": 1, "durability": "interval"}))
        assert isinstance(topic, m.TopicDescription)
        values = [random.Random(number).randbytes(50_000) for number in range(100)]
        for _ in range(8):
            produce(wire, topic, *values)
    before = broker.resident_bytes()
    with NativeWire(broker.address) as slow:
        for number in range(200):
            slow.send(m.Fetch([m.FetchPart(topic.id, 0, 0, 64 * MIB)], max_bytes=64 * MIB), correlation=number)
        assert_healthy(broker, topic)
        wait_until(lambda: "took its responses more slowly" in broker.log_text, 30, "the slow client is dropped")
        assert broker.resident_bytes() - before < 100 * MIB
        slow.socket.settimeout(20)
        taken = 0
        try:
            while data := slow.socket.recv(MIB):
                taken += len(data)
        except ConnectionError:
            pass
        assert taken < 64 * MIB
    assert_healthy(broker, topic)


def test_many_connections_come_and_go(shared_broker: BrokerProcess, topic: m.TopicDescription) -> None:
    def descriptors() -> int:
        return len(os.listdir(f"/proc/{shared_broker.pid}/fd"))

    before = descriptors()
    for _ in range(5):
        wires = [NativeWire(shared_broker.address, greet=index % 3 != 1) for index in range(60)]
        for index, wire in enumerate(wires):
            if index % 3 == 0:
                wire.send(m.Fetch([m.FetchPart(topic.id, 0, 0, MIB)], max_wait_ms=60_000))
            elif index % 3 == 1:
                wire.socket.sendall(PREFACE[:2])
            wire.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", index % 2, 0))
            wire.socket.close()
    wait_until(lambda: descriptors() <= before + 5, 30, "the broker closes its side")
    assert_healthy(shared_broker, topic)


@pytest.mark.parametrize(("producer_id", "epoch"), [(5, 2**64 - 1), (5, 2**31), (2**64 - 1, 0), (5, -7)])
def test_a_producer_whose_epochs_are_used_up_gets_a_new_id(
    shared_broker: BrokerProcess, producer_id: int, epoch: int
) -> None:
    with NativeWire(shared_broker.address) as wire:
        answer = wire.ask(m.InitProducer(producer_id, epoch))
        assert isinstance(answer, m.ProducerIdentity)
        assert (answer.producer_id != producer_id, answer.epoch) == (True, 0)
