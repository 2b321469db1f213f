"""What queues must not forget when the broker is stopped or killed: many queues, and one restart for all of them."""

from collections import Counter
from collections.abc import Callable, Generator, Iterator

import pytest

from blackbox.callers.http_queue import HttpQueue, values
from blackbox.processes.broker_process import BrokerProcess

Scene = Generator[None, None, None]
"""What comes before the restart, then what must hold after it."""


def acks(queue: HttpQueue) -> Scene:
    queue.publish(*"abcd")
    a, b, c, d = queue.receive(visibility="1h")
    queue.settle_many("ack", [a, b])
    queue.settle("ack", c)
    yield
    assert queue.receive() == []
    assert queue.depth()["leased"] == 1
    last = queue.settle("ack", d)
    assert (last["committed_offset"], last["offset_advanced"]) == (4, True)
    assert (queue.depth()["ready"], queue.depth()["leased"], queue.depth()["oldest_age"]) == (0, 0, 0)


def nacks(queue: HttpQueue) -> Scene:
    queue.publish(*"abc")
    queue.settle_many("nack", queue.receive(), delay="200ms", reason="no")
    yield
    again = queue.receive_all(3, consumer="two")
    assert sorted(values(again)) == ["a", "b", "c"]
    assert {(message["attempt"], message["last_error"]) for message in again} == {(2, "no")}


def long_delays_of_nacks(queue: HttpQueue) -> Scene:
    queue.publish("a")
    queue.settle("nack", queue.receive_one(), delay="1h", counted=False)
    yield
    assert queue.receive() == []
    assert queue.depth()["retrying"] == 1


def leases_and_attempts(queue: HttpQueue) -> Scene:
    queue.publish("held", "brief")
    [held] = queue.receive(max_messages=1, visibility="1h")
    queue.receive_one(visibility="100ms")
    yield
    again = queue.receive_one(consumer="two")
    assert (again["value"], again["attempt"]) == ("brief", 2)
    assert queue.receive() == []
    assert queue.depth()["consumers"] == {"one": 1, "two": 1}
    assert queue.settle("visibility", held, timeout="2h")["success"]
    assert queue.settle("ack", held)["delivery_count"] == 1


def order_of_keys(queue: HttpQueue) -> Scene:
    queue.publish_messages([{"value": f"{key}{n}", "key": key} for n in range(3) for key in "ab"])
    first = queue.receive("lanes", ordering="key", max_messages=1, visibility="1h")
    assert values(first) == ["a0"]
    yield
    assert values(queue.receive("lanes", max_messages=10)) == ["b0", "b1", "b2"]
    assert queue.receive("lanes") == []
    queue.settle("ack", first[0])
    assert values(queue.receive("lanes", max_messages=10)) == ["a1", "a2"]


def delays(queue: HttpQueue) -> Scene:
    queue.publish("soon", delay="1s", key="k", headers={"h": "x"}, priority="high")
    queue.publish("late", delay="1h")
    yield
    message = queue.receive_one()
    assert (message["value"], message["key"], message["headers"]) == ("soon", "k", {"h": "x"})
    assert (message["priority"], message["attempt"]) == ("high", 1)
    assert queue.receive() == []
    [pending] = queue.call("GET", f"/topics/{queue.topic}/delayed")["messages"]
    assert pending["state"] == "pending"


def cancelled_delays(queue: HttpQueue) -> Scene:
    results = queue.publish("cancelled", "kept", delay="2s")
    place = f"/topics/{queue.topic}/delayed/{results[0]['partition']}/{results[0]['offset']}"
    assert queue.call("DELETE", place)["canceled"]
    yield
    assert queue.receive_one()["value"] == "kept"
    assert queue.receive() == []
    assert queue.call("GET", place)["state"] == "cancelled"


def dead_letters(queue: HttpQueue) -> Scene:
    queue.publish(*[str(number) for number in range(60)])
    messages = queue.receive_all(60)
    queue.settle_many("reject", messages[:40], reason="no")
    for message in messages[40:]:
        queue.settle("reject", message, reason="no")
    yield
    assert Counter(values(queue.dead_letters(60))) == Counter(map(str, range(60)))
    assert queue.receive() == []


def settings(queue: HttpQueue) -> Scene:
    queue.publish("a")
    queue.receive("tuned", max_messages=1, visibility="1ms")
    queue.set_group("tuned", max_attempts=1)
    yield
    queue.dead_letters(1)
    assert queue.receive("tuned") == []
    assert queue.call("GET", "/groups/tuned")["config"]["max_attempts"] == 1
    assert queue.receive("tuned", ordering="key", status=409)["code"] == "group_ordering_mismatch"


SCENES: list[Callable[[HttpQueue], Scene]] = [
    cancelled_delays,
    delays,
    nacks,
    long_delays_of_nacks,
    leases_and_attempts,
    acks,
    order_of_keys,
    dead_letters,
    settings,
]


@pytest.fixture(scope="module", params=[True, False], ids=["killed", "stopped"])
def scenes(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Scene]]:
    with BrokerProcess(tmp_path_factory.mktemp("scenes") / "data") as broker:
        prepared = {scene.__name__: scene(HttpQueue(broker)) for scene in SCENES}
        for scene in prepared.values():
            next(scene)
        broker.restart(kill=request.param)
        yield prepared


@pytest.mark.parametrize("name", [scene.__name__ for scene in SCENES])
def test_it_goes_on_after_a_restart(scenes: dict[str, Scene], name: str) -> None:
    assert next(scenes[name], "the end") == "the end"
