"""The model of etcd that simulated clusters use: leases end, leaders are lost, and requests take effect late."""

from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from quiver.coordination.port import ABSENT, Expected, Put
from quiver.model.errors import CoordinationUnavailable
from quiver.testing.simulation.cluster.etcd import HOST, EtcdModel
from quiver.testing.simulation.cluster.etcd_client import ModelCoordination
from quiver.testing.simulation.system.loop import SimulatedLoop
from quiver.testing.simulation.system.network import SimulatedNetwork
from quiver.testing.simulation.world import World

Work = Callable[[ModelCoordination], Coroutine[Any, Any, None]]


class Etcd:
    def __init__(self) -> None:
        self.world = World(1)
        self.network = SimulatedNetwork(self.world)
        self.model = EtcdModel(self.world, self.network)
        self.errors: list[str] = []

    def run(self, work: Work, seconds: float = 60.0) -> None:
        done: list[bool] = []

        async def until_done() -> None:
            await work(ModelCoordination(self.model, "node-1/1"))
            done.append(True)

        loop = SimulatedLoop(self.world, "node-1/1", self.errors.append)
        loop.call_soon(lambda: loop.create_task(until_done()))
        self.world.run(lambda: bool(done or self.errors), at_most_seconds=seconds)
        assert done, self.errors
        assert not self.errors

    def pass_seconds(self, seconds: float) -> None:
        end = self.world.now + seconds
        self.world.at(end, lambda: None)
        self.world.run(lambda: self.world.now >= end, at_most_seconds=seconds + 1)


@pytest.fixture
def etcd() -> Etcd:
    return Etcd()


def test_a_key_goes_with_its_lease(etcd: Etcd) -> None:
    async def work(keys: ModelCoordination) -> None:
        lease_id = await keys.grant_lease(2000)
        await keys.commit([Expected("a", ABSENT)], [Put("a", b"1", lease_id)])
        assert await keys.keep_alive(lease_id)

    etcd.run(work)
    assert etcd.model.state.get("a") is not None
    etcd.pass_seconds(3.0)
    assert etcd.model.state.get("a") is None


def test_no_lease_ends_without_a_leader_and_the_next_one_extends_all(etcd: Etcd) -> None:
    async def work(keys: ModelCoordination) -> None:
        await keys.commit([], [Put("a", b"1", await keys.grant_lease(2000))])

    etcd.run(work)
    etcd.model.lose_leader(10.0)
    etcd.pass_seconds(11.0)
    assert etcd.model.state.get("a") is not None
    etcd.pass_seconds(3.0)
    assert etcd.model.state.get("a") is None


def test_a_request_takes_effect_although_its_response_is_lost(etcd: Etcd) -> None:
    async def work(keys: ModelCoordination) -> None:
        with pytest.raises(CoordinationUnavailable):
            await keys.commit([], [Put("a", b"1")])

    etcd.network.routes.cut(HOST, "node-1", 20.0)
    etcd.run(work)
    assert etcd.model.state.get("a") is not None


def test_a_request_that_does_not_arrive_in_time_takes_effect_later(etcd: Etcd) -> None:
    async def work(keys: ModelCoordination) -> None:
        with pytest.raises(CoordinationUnavailable):
            await keys.commit([], [Put("a", b"1")])

    etcd.network.routes.cut("node-1", HOST, 20.0)
    etcd.run(work)
    assert etcd.model.state.get("a") is None
    etcd.pass_seconds(20.0)
    assert etcd.model.state.get("a") is not None


def test_a_watch_gets_everything_in_order(etcd: Etcd) -> None:
    found: dict[str, bytes] = {}

    async def work(keys: ModelCoordination) -> None:
        revision = 0
        for number in range(50):
            await keys.commit([], [Put(f"{number % 5}", b"%d" % number)])
        async for batch in keys.watch(""):
            assert batch.revision > revision
            revision = batch.revision
            found.update({change.key: change.value for change in batch.changes if change.value is not None})
            if revision < 60:
                await keys.commit([], [Put("0", b"%d" % revision)])
            if batch.revision >= 60:
                return

    etcd.run(work)
    assert found == {key: entry.value for key, entry in etcd.model.state.entries.items()}
