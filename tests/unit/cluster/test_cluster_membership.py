"""Brokers that join, end and come back, on virtual time: who decides, and who is to run what."""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec

from quiver.cluster.membership import records
from quiver.cluster.membership.controlling import Controlling
from quiver.cluster.membership.decisions import WorkerDecisions
from quiver.cluster.membership.disk_watch import DiskWatch
from quiver.cluster.membership.records import NodeRecord, Setup, draining_key
from quiver.cluster.membership.session import Session
from quiver.cluster.membership.state import ClusterState, ensure_setup, restart_workers
from quiver.cluster.membership.unit_decisions import UnitDecisions
from quiver.cluster.ownership import Assignment
from quiver.coordination.port import Delete, Put
from quiver.coordination.view import View
from quiver.links.versions import LinkVersions
from quiver.model.errors import CoordinationUnavailable
from quiver.replication.unit import Unit, unit_key
from quiver.testing.memory_coordination import MemoryCoordination
from quiver.testing.simulation.system.loop import SimulatedLoop
from quiver.testing.simulation.world import World

WORKERS = 4


class Store(MemoryCoordination):
    """Coordination that can be away."""

    is_away = False

    async def keep_alive(self, lease_id: int) -> bool:
        self._check()
        return await super().keep_alive(lease_id)

    async def commit(self, *arguments: Any) -> Any:
        self._check()
        return await super().commit(*arguments)

    def _check(self) -> None:
        if self.is_away:
            raise CoordinationUnavailable(problem="it is away")


class Node:
    def __init__(self, store: Store, name: str, incarnation: int = 1, *, is_sole: bool = False) -> None:
        self.state = ClusterState(View(store), WORKERS)
        record = NodeRecord(
            node=name, incarnation=incarnation, host="here", native_port=1, http_port=2, link_port=3,
            pid=4, started_ms=5, version="6",
        )  # fmt: skip
        self.session = Session(store, self.state, record, is_sole=is_sole)
        self.controlling = Controlling(self.state, self.session, WorkerDecisions(self.state))

    async def start(self) -> "Node":
        await self.state.view.open()
        await self.session.join()
        self.controlling.task.start()
        return self

    def pause(self) -> None:
        self.session.task.cancel()
        self.controlling.task.cancel()

    def resume(self) -> None:
        self.session.task.start()
        self.controlling.task.start()

    @property
    def runs(self) -> Counter[str]:
        """How many workers are with which node, or on their way to it."""
        return Counter(each.next_node or each.node for each in self.state.assignments.values())


def on_virtual_time(test: Callable[[Store], Awaitable[None]]) -> None:
    world, errors, done = World(1), list[str](), list[bool]()
    loop = SimulatedLoop(world, "one", errors.append)

    async def run() -> None:
        await test(Store())
        done.append(True)

    loop.call_soon(lambda: loop.create_task(run()))
    world.run(lambda: bool(done or errors), at_most_seconds=1000)
    world.discard()
    assert done, errors
    assert not errors


async def until(check: Callable[[], bool], seconds: float) -> float:
    """Virtual seconds until it holds."""
    loop = asyncio.get_running_loop()
    began = loop.time()
    while not check():
        assert loop.time() < began + seconds, "not in time"
        await asyncio.sleep(0.01)
    return loop.time() - began


def test_nodes_join_and_one_that_is_gone_is_replaced_within_three_seconds() -> None:
    async def test(store: Store) -> None:
        a = await Node(store, "a").start()
        await until(lambda: a.runs == {"a": 4}, 1)
        b, c = await Node(store, "b").start(), await Node(store, "c").start()
        await until(lambda: sorted(c.runs.values()) == [1, 1, 2], 1)
        assert a.controlling.is_controller
        a.pause()
        assert await until(lambda: "a" not in b.runs and sum(b.runs.values()) == WORKERS, 3) > 1
        assert b.runs == c.runs == {"b": 2, "c": 2}
        a.resume()  # it was only paused
        await until(lambda: "a" in b.state.nodes and a.session.lasts, 3)
        assert sum([each.controlling.is_controller for each in (a, b, c)]) == 1
        await until(lambda: sorted(a.runs.values()) == [1, 1, 2], 1)

    on_virtual_time(test)


def test_a_clean_leave_is_seen_at_once() -> None:
    async def test(store: Store) -> None:
        a, b = await Node(store, "a").start(), await Node(store, "b").start()
        await until(lambda: a.runs == {"a": 2, "b": 2}, 3)
        await asyncio.sleep(2)  # b has not just joined
        await a.session.leave()
        assert await until(lambda: b.runs == {"b": 4}, 1) < 0.6

    on_virtual_time(test)


def test_after_an_outage_of_the_store_everything_stays_where_it_was() -> None:
    async def test(store: Store) -> None:
        a, b = await Node(store, "a").start(), await Node(store, "b").start()
        await until(lambda: a.runs == {"a": 2, "b": 2}, 3)
        before = {worker: each.node for worker, each in a.state.assignments.items()}
        store.is_away = True
        await asyncio.sleep(30)
        assert not a.session.lasts
        assert a.session.may_serve, "nobody can have taken anything over"
        store.is_away = False
        await until(lambda: a.session.lasts and b.session.lasts, 2)
        await asyncio.sleep(5)
        assert {worker: each.node for worker, each in a.state.assignments.items()} == before

    on_virtual_time(test)


def test_a_node_that_drains_hands_over_and_gets_nothing() -> None:
    async def test(store: Store) -> None:
        a, b = await Node(store, "a").start(), await Node(store, "b").start()
        await until(lambda: a.runs == {"a": 2, "b": 2}, 3)
        await b.state.view.commit([], [Put(draining_key("a"), b"1")])
        await until(lambda: b.runs == {"b": 4}, 2)
        await b.state.view.commit([], [Delete(draining_key("a"))])
        await until(lambda: b.runs == {"a": 2, "b": 2}, 2)

    on_virtual_time(test)


def test_a_node_whose_disk_has_failed_hands_over_until_its_process_ends() -> None:
    async def test(store: Store) -> None:
        one, two = await Node(store, "a").start(), await Node(store, "b").start()
        await until(lambda: one.runs == {"a": 2, "b": 2}, 3)
        failures: list[str] = []
        watch = DiskWatch(lambda: failures[0] if failures else None, two.session, two.state)
        watch.task.start()
        failures.append("offline for writes")
        store.is_away = True
        await asyncio.sleep(1.0)
        assert not one.state.draining
        store.is_away = False
        await until(lambda: one.runs == {"a": 4}, 3)
        await store.commit([], [Delete(draining_key("b"))])
        await until(lambda: not one.state.draining, 1)
        await until(lambda: one.state.draining == {"b"}, 1)
        assert watch.task.problem is None
        watch.task.cancel()
        two.pause()
        await until(lambda: not one.state.draining, 3)

    on_virtual_time(test)


def test_a_process_with_the_id_of_another_one_waits_for_its_lease_or_replaces_it() -> None:
    async def test(store: Store) -> None:
        first = await Node(store, "a", 1).start()
        first.pause()
        second = Node(store, "a", 2)
        began = asyncio.get_running_loop().time()
        await second.start()
        assert asyncio.get_running_loop().time() - began > 1
        second.pause()
        third = Node(store, "a", 3, is_sole=True)
        began = asyncio.get_running_loop().time()
        await third.start()
        assert asyncio.get_running_loop().time() - began < 0.1
        await asyncio.sleep(3)
        assert third.state.nodes["a"].incarnation == 3, "the end of an old lease takes nothing"

    on_virtual_time(test)


def test_the_first_setup_counts_and_workers_can_be_started_again() -> None:
    async def test(store: Store) -> None:
        assert await ensure_setup(store, Setup(4, "secret")) == Setup(4, "secret")
        assert await ensure_setup(store, Setup(8, "other")) == Setup(4, "secret")
        a = await Node(store, "a").start()
        await until(lambda: a.runs == {"a": 4}, 1)
        await restart_workers(store)
        await until(lambda: {each.epoch for each in a.state.assignments.values()} == {2}, 1)

    on_virtual_time(test)


def test_a_node_that_shares_no_version_with_an_older_member_stays_away_until_that_is_gone() -> None:
    async def test(store: Store) -> None:
        old = await Node(store, "a", 1).start()
        new = Node(store, "b", 2)
        new.session.record = msgspec.structs.replace(new.session.record, link_versions=LinkVersions(2, 2))
        await new.start()
        await asyncio.sleep(5)
        assert set(old.state.nodes) == {"a"}
        assert "speaks version 1 of the protocol between nodes, this one speaks 2" in str(new.session.problem)
        assert not new.session.may_serve
        assert not new.controlling.is_controller
        await old.session.leave()
        await until(lambda: set(new.state.nodes) == {"b"} and new.runs == {"b": WORKERS}, 3)
        assert new.session.problem is None
        assert new.session.may_serve

    on_virtual_time(test)


def test_of_two_that_joined_at_once_the_one_that_started_last_leaves() -> None:
    async def test(store: Store) -> None:
        first, last = Node(store, "a", 1), Node(store, "b", 2)
        last.session.record = msgspec.structs.replace(last.session.record, link_versions=LinkVersions(2, 2))
        await last.start()  # it saw nobody
        await first.start()
        await until(lambda: set(first.state.nodes) == {"a"} and first.runs == {"a": WORKERS}, 3)
        await asyncio.sleep(5)
        assert set(first.state.nodes) == {"a"}
        assert last.session.problem is not None

    on_virtual_time(test)


def test_fields_that_a_later_version_has_added_are_ignored() -> None:
    record = NodeRecord(
        node="a",
        incarnation=1,
        host="here",
        native_port=1,
        http_port=2,
        link_port=3,
        pid=4,
        started_ms=5,
        version="6",
    )
    fields = msgspec.json.decode(records.encode(record))
    assert records.decode(msgspec.json.encode(fields | {"zone": [1]}), NodeRecord) == record
    del fields["link_versions"]
    assert records.decode(msgspec.json.encode(fields), NodeRecord).link_versions == (1, 1), "of an earlier version"
    assignment = Assignment("a", 3, "b", 7)
    fields = msgspec.json.decode(records.encode(assignment))
    assert records.decode_assignment(msgspec.json.encode(fields | {"zone": 1})) == assignment


class CountingStore(Store):
    """Counts transactions; `before` is carried out in front of the next one that puts a unit."""

    def __init__(self) -> None:
        super().__init__()
        self.transactions = 0
        self.before: Put | None = None

    async def commit(self, *arguments: Any) -> Any:
        expected, operations = arguments
        if any(isinstance(each, Put) and each.key.startswith("unit/") for each in operations):
            self.transactions += 1
            if (put := self.before) is not None:
                self.before = None
                await super().commit([], [put])
        return await super().commit(expected, operations)


def led_by(leader: int) -> Unit:
    return Unit(replicas=(1, 2, 3), isr=(1, 2, 3), leader=leader, incarnation=1, epoch=1, min_isr=2)


async def controller_of(store: Store, count: int) -> tuple[Controlling, UnitDecisions]:
    """Node 1, which all units prefer as their leader; node 2 leads them now."""
    for worker in range(count):
        await store.commit([], [Put(unit_key(worker), led_by(2).key_value)])
    for number in (2, 3):
        other = NodeRecord(
            node=str(number), incarnation=1, host="here", native_port=1, http_port=2, link_port=3,
            pid=4, started_ms=5, version="6",
        )  # fmt: skip
        await store.commit([], [Put(records.node_key(str(number)), records.encode(other))])
    state = ClusterState(View(store), count)
    record = NodeRecord(
        node="1",
        incarnation=1,
        host="here",
        native_port=1,
        http_port=2,
        link_port=3,
        pid=4,
        started_ms=5,
        version="6",
    )
    session = Session(store, state, record)
    decisions = UnitDecisions(state, replica_count=3, min_isr=2)
    await state.view.open()
    await session.join()
    return Controlling(state, session, decisions), decisions


def test_many_units_are_decided_in_few_transactions() -> None:
    async def test(store: Store) -> None:
        counting = CountingStore()
        controlling, decisions = await controller_of(counting, 300)
        counting.transactions = 0
        await controlling.decide()
        assert {each.leader for each in decisions.units.values()} == {1}
        assert counting.transactions == 3, "127 units each"

    on_virtual_time(test)


def test_what_has_changed_since_the_decision_is_not_overwritten() -> None:
    """A leader takes a follower out of the set of a unit while the controller is about to make that follower the
    leader: what was committed without it would be lost."""

    async def test(store: Store) -> None:
        counting = CountingStore()
        controlling, decisions = await controller_of(counting, 5)
        shrunk = led_by(2).with_set((2, 3))
        counting.before = Put(unit_key(3), shrunk.key_value)
        await controlling.decide()
        assert decisions.units[3] == shrunk
        assert {each.leader for worker, each in decisions.units.items() if worker != 3} == {1}
        await controlling.decide()
        assert decisions.units[3] == shrunk, "node 1 has not everything"

    on_virtual_time(test)
