"""Two brokers on one data directory: the second is told who holds it and changes nothing."""

from collections.abc import Callable
from pathlib import Path

import pytest

import quiver
from blackbox.processes.broker_process import BrokerExited, BrokerProcess
from quiver.model.errors import DataDirectoryInUse

StartBroker = Callable[..., BrokerProcess]


def test_the_second_start_names_the_holder_and_the_first_goes_on(broker: BrokerProcess) -> None:
    with quiver.connect(broker.address) as q:
        q.topics.create("orders", partitions=1)
        second = BrokerProcess(broker.data_dir)
        second.log_path = broker.data_dir.parent / "second.log"
        with pytest.raises(BrokerExited) as refused, second:
            pass
        assert refused.value.status not in (0, None)
        assert str(broker.pid) in refused.value.log
        assert "Traceback" not in refused.value.log
        assert q.publish("orders", b"still here").offset == 0
    assert broker.request("GET", "/readyz")[0] == 200


def test_the_same_directory_by_another_path(broker: BrokerProcess, tmp_path: Path) -> None:
    alias = tmp_path / "alias"
    alias.symlink_to(broker.data_dir)
    with pytest.raises(BrokerExited, match=str(broker.pid)), BrokerProcess(alias):
        pass


def test_an_embedded_broker_is_refused_too(broker: BrokerProcess) -> None:
    with pytest.raises(DataDirectoryInUse, match=str(broker.pid)), quiver.open(broker.data_dir):
        pass


def test_a_killed_holder_holds_nothing(broker: BrokerProcess) -> None:
    """Its lock file and broker.json are still there."""
    broker.kill()
    assert (broker.data_dir / "broker.json").exists()
    with BrokerProcess(broker.data_dir) as second:
        assert second.request("GET", "/readyz")[0] == 200


def test_many_starts_at_once_leave_one(start_broker: StartBroker, tmp_path: Path) -> None:
    racers = [start_broker(data_dir=tmp_path / "data", wait=False) for _ in range(3)]
    for racer in racers:
        racer.log_path = tmp_path / "data.broker.log"
    ready, refused = 0, 0
    for racer in racers:
        try:
            racer.wait_ready()
            ready += 1
        except BrokerExited:
            refused += 1
    assert [racer.running for racer in racers].count(True) == 1
    assert ready + refused == len(racers)
