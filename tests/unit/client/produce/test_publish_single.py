"""`publish`: messages that travel by themselves, and what becomes of them when something goes wrong."""

import threading

import pytest

import quiver
from quiver.client import Client
from quiver.client._sync.produce.sender import Sender
from quiver.model.errors import DiskFull, InvalidFrame, RequestTimeout, TopicNotFound
from quiver.protocol.messages import Failure, Produce, Request
from quiver.records.read import open_frame
from quiver.structures.murmur2 import partition_for
from unit.client.fake_native_broker import FakeBroker


@pytest.fixture
def singles(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Of each message that may go by itself, whether it did."""
    taken: list[bool] = []
    send_single = Sender.send_single

    def watched(self: Sender, value: bytes, key: bytes | None) -> object:
        batch = send_single(self, value, key)
        taken.append(batch is not None)
        return batch

    monkeypatch.setattr(Sender, "send_single", watched)
    return taken


def _next_produce(broker: FakeBroker, fault: object) -> None:
    """Has the next produce fail that way."""
    left = [fault]
    broker.fault = lambda request: left.pop() if left and isinstance(request, Produce) else None  # type: ignore[return-value]


def _failure(error: quiver.QuiverError) -> Failure:
    return Failure(error.code, error.message, error.retryable)


def test_after_the_first_one_they_go_by_themselves(q: Client, broker: FakeBroker, singles: list[bool]) -> None:
    places = [q.publish("single", b"%d" % n) for n in range(5)]
    assert [(place.topic, place.partition, place.offset) for place in places] == [("single", 0, n) for n in range(5)]
    assert singles == [False, True, True, True, True]
    frames = [open_frame(frame) for frame in broker.topics["single"].partitions[0].frames]
    assert [frame.header.base_sequence for frame in frames] == list(range(5))
    assert [frame.values() for frame in frames] == [[b"%d" % n] for n in range(5)]


def test_a_key_decides_on_the_partition(q: Client, broker: FakeBroker, singles: list[bool]) -> None:
    keys = [b"%d" % (n % 7) for n in range(40)]
    places = [q.publish("orders", {"n": 1}, key=key) for key in keys]
    assert [place.partition for place in places] == [partition_for(key, 3) for key in keys]
    assert sum(singles) == 37  # the first one of each partition finds out what there is to know
    stored = [open_frame(frame) for part in broker.topics["orders"].partitions for frame in part.frames]
    found = [key for frame in stored for key in frame.keys()]  # noqa: SIM118 - a column
    assert sorted(found) == sorted(keys)


@pytest.mark.parametrize("value", [None, bytes(1025), bytes(5000)])
def test_other_messages_go_the_way_of_all(q: Client, broker: FakeBroker, value: bytes | None) -> None:
    q.publish("single", b"first")
    assert q.publish("single", value).offset == 1
    assert q.publish("single", b"x", headers={"a": "b"}).offset == 2
    assert q.publish("single", b"last").offset == 3
    assert broker.topics["single"].values() == [b"first", value, b"x", b"last"]


@pytest.mark.parametrize("fault", ["drop", "drop after"])
def test_a_lost_connection_stores_it_once(q: Client, broker: FakeBroker, fault: str) -> None:
    q.publish("single", b"first")
    _next_produce(broker, fault)
    assert q.publish("single", b"second").offset == 1
    assert q.publish("single", b"third").offset == 2
    assert broker.topics["single"].values() == [b"first", b"second", b"third"]


def test_what_is_refused_for_now_is_sent_again(q: Client, broker: FakeBroker) -> None:
    q.publish("single", b"first")
    _next_produce(broker, _failure(DiskFull(problem="nothing is left")))
    assert q.publish("single", b"second").offset == 1
    assert broker.topics["single"].values() == [b"first", b"second"]


def test_a_refusal_is_raised_and_the_next_one_goes_on(q: Client, broker: FakeBroker) -> None:
    q.publish("single", b"first")
    _next_produce(broker, _failure(InvalidFrame(problem="of no use")))
    with pytest.raises(InvalidFrame):
        q.publish("single", b"second")
    assert q.publish("single", b"third").offset == 1
    assert broker.topics["single"].values() == [b"first", b"third"]


def test_partitions_that_were_added_are_found(q: Client, broker: FakeBroker) -> None:
    for n in range(9):
        q.publish("orders", b"first", key=b"%d" % n)
    broker.grow("orders", 8)
    keys = [b"%d" % n for n in range(30)]
    assert [q.publish("orders", b"x", key=key).partition for key in keys] == [partition_for(k, 8) for k in keys]


def test_a_topic_that_was_created_again_is_found(q: Client, broker: FakeBroker) -> None:
    for _ in range(3):
        q.publish("single", b"old")
    broker.recreate("single")
    assert [q.publish("single", b"new").offset for _ in range(3)] == [0, 1, 2]


def test_a_topic_that_is_gone_fails_the_message(q: Client, broker: FakeBroker) -> None:
    for _ in range(3):
        q.publish("single", b"old")
    broker.topics.pop("single")
    with pytest.raises(TopicNotFound):
        q.publish("single", b"new")


def test_a_broker_that_does_not_answer_is_waited_for_no_longer_than_asked(q: Client, broker: FakeBroker) -> None:
    q.publish("single", b"first")

    def ignore(request: Request) -> str | None:
        return "ignore" if isinstance(request, Produce) else None

    broker.fault = ignore  # type: ignore[assignment]
    with pytest.raises(RequestTimeout):
        q.publish("single", b"second", timeout=0.05)
    broker.fault = lambda request: None
    broker.disconnect()
    assert q.publish("single", b"third").offset == 2
    assert broker.topics["single"].values() == [b"first", b"second", b"third"]


def test_threads_share_a_client(q: Client, broker: FakeBroker) -> None:
    places: dict[int, list[int]] = {}

    def work(number: int) -> None:
        places[number] = [q.publish("single", b"%d:%d" % (number, n)).offset for n in range(150)]

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    stored = broker.topics["single"].values()
    assert len(stored) == 600
    for number, offsets in places.items():
        assert [stored[offset] for offset in offsets] == [b"%d:%d" % (number, n) for n in range(150)]
        assert offsets == sorted(offsets)


def test_an_interrupt_while_waiting_loses_nothing(
    q: Client, broker: FakeBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    q.publish("single", b"first")

    def interrupted(self: object, gate: object, timeout: float | None) -> None:
        monkeypatch.undo()
        raise KeyboardInterrupt

    monkeypatch.setattr("quiver.client._sync.connection.connection.Connection.wait", interrupted)
    with pytest.raises(KeyboardInterrupt):
        q.publish("single", b"second")
    assert [q.publish("single", b"%d" % n).offset for n in range(3)] == [2, 3, 4]
    assert broker.topics["single"].values()[:2] == [b"first", b"second"]
