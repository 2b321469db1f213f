"""A wall clock that goes backwards: the `time` of the broker process is shifted by what a file says."""

from collections.abc import Callable
from pathlib import Path

import pytest

import quiver
from blackbox.processes.broker_process import BrokerProcess

HOUR_SECONDS = 3600

_SHIFT = """
import os, time

_path, _time, _time_ns = os.environ["SHIFT_FILE"], time.time, time.time_ns

def _shift():
    with open(_path) as file:
        return float(file.read())

time.time = lambda: _time() + _shift()
time.time_ns = lambda: _time_ns() + int(_shift() * 1e9)
"""

StartBroker = Callable[..., BrokerProcess]


class ShiftedBroker:
    """A broker whose wall clock the test can move."""

    def __init__(self, start_broker: StartBroker, directory: Path) -> None:
        package = directory / "shift"
        package.mkdir()
        (package / "sitecustomize.py").write_text(_SHIFT)
        self._file = directory / "shift_seconds"
        self.move(0)
        environment = {"PYTHONPATH": str(package), "SHIFT_FILE": str(self._file)}
        self.process = start_broker(environment=environment)

    def move(self, seconds: float) -> None:
        """The clock shows this much more (or less) than the true time from now on."""
        fresh = self._file.with_suffix(".new")
        fresh.write_text(str(seconds))
        fresh.rename(self._file)


@pytest.fixture
def shifted(start_broker: StartBroker, tmp_path: Path) -> ShiftedBroker:
    return ShiftedBroker(start_broker, tmp_path)


def _appended(broker: BrokerProcess, topic: str = "orders") -> list[str]:
    status, page = broker.request("GET", f"/topics/{topic}/partitions/0/messages?limit=100")
    assert status == 200, page
    return [message["appended_at"] for message in page["messages"]]


@pytest.mark.parametrize("restart", [False, True], ids=["running", "restarted"])
def test_append_times_never_go_back(shifted: ShiftedBroker, restart: bool) -> None:
    broker = shifted.process
    with quiver.connect(broker.address) as q:
        q.topics.create("orders", partitions=1)
        q.publish("orders", b"0")
        shifted.move(-2 * HOUR_SECONDS)
        q.publish("orders", b"1")
    if restart:
        broker.restart(kill=True)
    with quiver.connect(broker.address) as q:
        q.publish("orders", b"2")
        shifted.move(HOUR_SECONDS)
        q.publish("orders", b"3")
        times = _appended(broker)
        assert times == sorted(times)
        assert times[0] == times[1] == times[2] < times[3]
        assert [m.value for m in q.read("orders", end="latest")] == [b"0", b"1", b"2", b"3"]


def test_reading_from_a_time_after_the_clock_went_back(shifted: ShiftedBroker) -> None:
    broker = shifted.process
    with quiver.connect(broker.address) as q:
        q.topics.create("orders", partitions=1)
        q.publish("orders", b"0")
        shifted.move(HOUR_SECONDS)
        q.publish("orders", b"1")
        shifted.move(-HOUR_SECONDS)
        q.publish("orders", b"2")
        times = _appended(broker)
        assert [m.value for m in q.read("orders", start=times[0], end="latest")] == [b"0", b"1", b"2"]
        assert [m.value for m in q.read("orders", start=times[1], end="latest")] == [b"1", b"2"]


def test_nothing_is_deleted_and_producers_go_on_when_the_clock_jumps_ahead_and_back(shifted: ShiftedBroker) -> None:
    broker = shifted.process
    with quiver.connect(broker.address) as q:
        q.topics.create("orders", partitions=1, retention="7d")
        with q.producer("orders") as producer:
            producer.send(b"0").result(10)
            for days, value in ((2, b"1"), (-30, b"2"), (0, b"3")):
                shifted.move(days * 24 * HOUR_SECONDS)
                producer.send(value).result(10)
        assert [m.value for m in q.read("orders", end="latest")] == [b"0", b"1", b"2", b"3"]
    assert broker.request("GET", "/health")[1]["uptime"] is not None
    assert broker.terminate() == 0


@pytest.mark.parametrize("restart", [False, True], ids=["running", "restarted"])
def test_a_lease_that_began_while_the_clock_was_ahead_ends_in_time(shifted: ShiftedBroker, restart: bool) -> None:
    shifted.move(HOUR_SECONDS)
    broker = shifted.process.restart() if restart else shifted.process
    assert broker.request("POST", "/topics", {"name": "jobs", "partitions": 1})[0] == 201
    assert broker.request("POST", "/topics/jobs/messages", {"messages": [{"value": "x"}]})[0] == 200
    wanted = {"group": "g", "consumer": "dies", "visibility": "1s"}
    assert broker.request("POST", "/topics/jobs/receive", wanted)[1]["messages"]
    shifted.move(0)
    if restart:
        broker.restart()
    wanted = {"group": "g", "consumer": "other", "wait": "20s"}
    (again,) = broker.request("POST", "/topics/jobs/receive", wanted, timeout=30)[1]["messages"]
    assert (again["value"], again["attempt"]) == ("x", 2)
    if restart:
        assert "behind the one that the delivery journal of jobs-0 was written with" in broker.log_text
