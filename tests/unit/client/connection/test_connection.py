"""Connections and links: the handshake, lost answers, forks."""

import os
import socket
import threading

import pytest

import quiver
from quiver.client.backoff import retry_backoff
from quiver.client.connection.address import Address, parse_address, parse_bootstrap
from quiver.model.errors import Closed, ConnectionLost, ForkRefused, InvalidRequest, ProtocolError, TopicExists
from quiver.protocol.messages import CreateTopic, Failure, GetMetadata, Hello
from quiver.protocol.packet import encode_packet
from unit.client.fake_native_broker import FakeBroker


@pytest.fixture
def broker():
    with FakeBroker(orders=3) as fake:
        yield fake


@pytest.mark.parametrize(
    ("text", "expected"),
    [("localhost:7481", Address("localhost", 7481)), ("broker", Address("broker", 7481)),
     ("[::1]:99", Address("::1", 99)), ("[::1]", Address("::1", 7481)), (" 10.0.0.1:1 ", Address("10.0.0.1", 1))],
)  # fmt: skip
def test_addresses(text, expected):
    assert parse_address(text) == expected
    assert parse_address(str(expected)) == expected


@pytest.mark.parametrize("text", ["", ":7481", "a:b", "host:0", "host:70000", "::1", "[::1", 7481, None, "a:1:2"])
def test_what_is_no_address(text):
    with pytest.raises(InvalidRequest, match="host:port"):
        parse_address(text)


@pytest.mark.parametrize("value", ["a,b:1", ["a", "b:1"], ("a:7481", "b:1"), "a, b:1,a"])
def test_several_addresses(value):
    assert parse_bootstrap(value).addresses == (Address("a", 7481), Address("b", 1))
    assert str(parse_bootstrap(value)) == "a:7481,b:1"


@pytest.mark.parametrize("value", ["", "a,,b", [], ["a", 7], None, 7])
def test_what_is_no_list_of_addresses(value):
    with pytest.raises(InvalidRequest):
        parse_bootstrap(value)


class Chance:
    def __init__(self, value: float) -> None:
        self.value = value

    def token(self, byte_count: int) -> bytes:
        return bytes(byte_count)

    def jitter(self) -> float:
        return self.value


def test_the_first_address_that_answers_is_used(broker):
    nobody = "127.0.0.1:1"
    with quiver.connect([nobody, broker.address]) as q:
        assert q.topics.list() == ["orders"]
    with pytest.raises(ConnectionLost, match=r"127\.0\.0\.1:1"):
        quiver.connect(f"{nobody},127.0.0.1:2")


def test_backoff_grows_to_a_second():
    longest, shortest = retry_backoff(Chance(0.0)), retry_backoff(Chance(1.0))
    waits = [longest.next_seconds() for _ in range(20)]
    assert waits == sorted(waits)
    assert (waits[0], waits[-1]) == (0.02, 1.0)
    assert [shortest.next_seconds() for _ in range(20)] == [wait / 2 for wait in waits]


def test_nobody_there_is_said_at_once():
    with pytest.raises(ConnectionLost, match=r"127\.0\.0\.1:1"):
        quiver.connect("127.0.0.1:1")


def answering_once(data: bytes) -> str:
    listener = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        with listener, listener.accept()[0] as sock:
            sock.recv(1000)
            sock.sendall(data)

    threading.Thread(target=serve, daemon=True).start()
    return f"127.0.0.1:{listener.getsockname()[1]}"


def test_another_protocol_is_recognised():
    with pytest.raises(ProtocolError, match="native port"):
        quiver.connect(answering_once(b"HTTP/1.1 400 Bad Request\r\n\r\n" * 10), timeout=5)


def test_a_refusal_of_the_connection_is_told():
    refusal = encode_packet(0, Failure("protocol_error", "wrong door"))
    with pytest.raises(ProtocolError, match="wrong door"):
        quiver.connect(answering_once(refusal), timeout=5)


def test_a_broker_that_does_not_answer_the_handshake(broker):
    broker.fault = lambda request: "ignore" if isinstance(request, Hello) else None
    with pytest.raises(ConnectionLost, match="handshake"):
        quiver.connect(broker.address, timeout="100ms")


def test_what_can_be_repeated_is_repeated(broker):
    with quiver.connect(broker.address) as q:
        left = [3]

        def fault(request):
            if isinstance(request, GetMetadata) and left[0]:
                left[0] -= 1
                return "drop"
            return None

        broker.fault = fault
        assert q.topics.list() == ["orders"]
        assert len(broker.requests_of(GetMetadata)) == 4


def test_what_cannot_be_repeated_is_not(broker):
    with quiver.connect(broker.address) as q:
        broker.fault = lambda request: "drop after" if isinstance(request, CreateTopic) else None
        with pytest.raises(ConnectionLost):
            q.topics.create("new")
        assert len(broker.requests_of(CreateTopic)) == 1


def test_errors_of_the_broker_keep_their_kind(broker):
    with quiver.connect(broker.address) as q:
        broker.fault = lambda request: (
            Failure("topic_exists", "it is there") if isinstance(request, CreateTopic) else None
        )
        with pytest.raises(TopicExists, match="it is there"):
            q.topics.create("orders")


def test_a_closed_client_says_so(broker):
    q = quiver.connect(broker.address)
    q.publish("orders", b"a")
    q.close()
    q.close()
    for call in (q.topics.list, lambda: q.publish("orders", b"b"), lambda: next(iter(q.read("orders")))):
        with pytest.raises(Closed):
            call()


def test_a_forked_child_is_refused_and_the_parent_goes_on(broker):
    with quiver.connect(broker.address) as q, q.producer("orders") as out:
        out.send(b"parent").result(10)
        out.send(b"gathered")
        pid = os.fork()
        if pid == 0:
            refused = 0
            for call in (q.topics.list, lambda: q.publish("orders", b"x"), lambda: out.send(b"x")):
                try:
                    call()
                except ForkRefused:
                    refused += 1
                except BaseException:
                    pass
            os._exit(0 if refused == 3 else 1)
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
        assert out.send(b"parent again").result(10)
    assert len(broker.topics["orders"].values()) == 3
