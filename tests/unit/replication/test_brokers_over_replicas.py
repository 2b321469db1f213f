"""A worker's broker moves between three nodes with files: nothing that was acked is lost, nothing is done twice."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import msgspec
import pytest

from quiver.broker.broker import Broker, BrokerSettings
from quiver.cluster.placement import Placement
from quiver.coordination.port import Delete, Put
from quiver.messages.browse import BrowseRequest
from quiver.model.message import NewMessage
from quiver.model.queue import ReceiveRequest
from quiver.model.settlement import ACK, SettleRequest
from quiver.records.build import build_frame
from quiver.replication.clean_stop import CleanStop
from quiver.replication.leading.storage import UnitStorage
from quiver.replication.settings import ReplicationSettings
from quiver.storage.local.settings import LocalSettings
from quiver.storage.local.storage import LocalStorage
from quiver.storage.memory.storage import MemoryStorage
from quiver.storage.port import LogOptions
from quiver.system.files import Files
from quiver.testing.memory_coordination import MemoryCoordination
from quiver.testing.replication.direct import ReplicaGroup
from quiver.testing.replication.frames import stored_values

QUICK = ReplicationSettings(call_seconds=5.0, idle_seconds=0.05, lag_seconds=2.0)


class Nodes(ReplicaGroup):
    def __init__(self, root: Path, settings: ReplicationSettings = QUICK) -> None:
        self.root = root
        self.storages = [self.new_local(number) for number in range(3)]
        super().__init__(self.storages, settings)

    def new_local(self, number: int) -> LocalStorage:
        return LocalStorage(self.root / str(number), LocalSettings(min_free_bytes=0))

    async def open(self) -> None:
        for storage in self.storages:
            await storage.open()
        await super().open()

    async def elect(self, node: int) -> None:
        incarnation = self.nodes[node].member.incarnation
        unit = msgspec.structs.replace(self.unit(), leader=node, incarnation=incarnation, epoch=self.unit().epoch + 1)
        await self.write(unit)

    async def until_in_sync(self) -> None:
        async with asyncio.timeout(60):
            while len(self.unit().isr) < 3:
                await self.nodes[0].changed.wait()

    async def contents(self, node: int) -> dict[str, list[tuple[int, bytes]]]:
        local = self._locals[node]
        found = {}
        for log_id in await local.list_logs():
            log = await local.open_log(log_id, LogOptions())
            found[log_id] = await stored_values(log, log.end_offset)
        return found


@pytest.fixture
async def nodes(tmp_path: Path) -> AsyncIterator[Nodes]:
    nodes = Nodes(tmp_path)
    await nodes.open()
    yield nodes
    await nodes.close()


@pytest.fixture
async def patient_nodes(tmp_path: Path) -> AsyncIterator[Nodes]:
    """Whose in-sync sets stay as they are."""
    nodes = Nodes(tmp_path, QUICK._replace(lag_seconds=60.0))
    await nodes.open()
    yield nodes
    await nodes.close()


async def started(nodes: Nodes, node: int) -> tuple[Broker, UnitStorage]:
    storage = await nodes.lead(node=node)
    broker = Broker(storage)
    await broker.start()
    return broker, storage


async def publish(broker: Broker, *values: int) -> None:
    found = await broker.publish("work", [NewMessage(value=b"%d" % value) for value in values])
    assert not any(isinstance(each, Exception) for each in found)


async def received(broker: Broker, count: int) -> list[bytes | None]:
    """Receives, acks, and returns the values."""
    values: list[bytes | None] = []
    topic = broker.topic("work")
    page = await broker.read_messages("work", 0, BrowseRequest(limit=1000))
    by_offset = {message.offset: message.value for message in page.messages}
    while len(values) < count:
        request = ReceiveRequest([topic.id], "g", consumer="c", max_messages=count - len(values), wait_ms=5000)
        for one in await broker.queues.receive(request):
            run = one.run
            part = SettleRequest(topic.id, run.partition, run.group_id, run.lease_id, ACK, [(run.start, run.end)])
            assert not (await broker.queues.settle([part]))[0].refused
            values += [by_offset[offset] for offset in range(run.start, run.end)]
    return values


async def test_a_broker_moves_and_goes_on(patient_nodes: Nodes) -> None:
    nodes = patient_nodes
    broker, storage = await started(nodes, 0)
    await broker.create_topic("work", {"partitions": 1})
    await publish(broker, *range(10))
    first = await received(broker, 4)
    waiting = asyncio.ensure_future(storage.deposed.wait())
    await nodes.elect(1)
    await waiting
    await broker.stop()
    await nodes.nodes[0].release(0)

    broker, storage = await started(nodes, 1)
    await publish(broker, *range(10, 20))
    rest = await received(broker, 16)
    assert first + rest == [b"%d" % value for value in range(20)]
    await broker.create_topic("gone", {"partitions": 3})
    gone = broker.topic("gone").id
    await broker.delete_topic("gone")
    await broker.stop()
    await nodes.nodes[1].release(0)
    assert not [each for node in range(3) for each in await nodes.contents(node) if f"topics/{gone}/" in each]

    broker, storage = await started(nodes, 1)
    assert await storage.next_start_epoch() >> 8 == 3
    assert [each.name for each in broker.topics()] == ["work"]
    await broker.stop()


async def test_a_node_that_was_away_gets_the_same_files(nodes: Nodes) -> None:
    broker, _ = await started(nodes, 0)
    await broker.create_topic("work", {"partitions": 1})
    await publish(broker, *range(10))
    nodes.cut_off.add(2)
    await nodes.nodes[2].close()
    await nodes.storages[2].close()
    await publish(broker, *range(10, 20))
    assert await received(broker, 5) == [b"%d" % value for value in range(5)]
    again = nodes.new_local(2)
    await again.open()
    nodes.cut_off.clear()
    await nodes.restart(2, again)
    await nodes.until_in_sync()
    await publish(broker, 20)
    await broker.stop()
    found = [await nodes.contents(node) for node in range(3)]
    assert found[0] == found[1] == found[2]
    assert len(found[0]) > 5


async def test_a_topic_that_is_deleted_while_its_worker_moves_leaves_no_logs() -> None:
    group = ReplicaGroup([MemoryStorage() for _ in range(3)], QUICK, workers=2)
    await group.open()
    metadata = MemoryCoordination()
    storages = [await group.lead(worker) for worker in range(2)]
    brokers = [
        Broker(storage, settings=BrokerSettings(placement=Placement(worker, 2)), coordination=metadata)
        for worker, storage in enumerate(storages)
    ]
    for broker in brokers:
        await broker.start()
    topic = await brokers[0].create_topic("work", {"partitions": 4})
    while len(await storages[1].list_logs("topics")) < 2:
        await asyncio.sleep(0)
    for broker in brokers:
        await broker.stop()
    found = await metadata.get("topics/work")
    assert found is not None
    await metadata.commit([], [Delete("topics/work"), Put(f"deleted-topics/{topic.id}", found.value)])
    moved = await group.lead(1)
    again = Broker(moved, settings=BrokerSettings(placement=Placement(1, 2)), coordination=metadata)
    await again.start()
    async with asyncio.timeout(30):
        while await moved.list_logs("topics"):
            await asyncio.sleep(0)
    await again.stop()
    await group.close()


def test_a_clean_stop_is_noted(tmp_path: Path) -> None:
    stop = CleanStop(tmp_path, Files())
    assert stop.take(1) == 1
    stop.leave(1)
    assert stop.take(2) == 1
    assert stop.take(3) == 3


async def test_a_publish_with_acks_leader_does_not_wait_for_followers(patient_nodes: Nodes) -> None:
    nodes = patient_nodes
    broker, _ = await started(nodes, 0)
    topic = await broker.create_topic("work", {"partitions": 1})
    await publish(broker, 0)
    nodes.cut_off |= {1, 2}
    for value in (b"1", b"2"):  # the second one does not wait for the first
        [published] = await broker.publish("work", [NewMessage(value=value, acks="leader")])
        assert not isinstance(published, Exception)
        frame = build_frame([b"frame " + value], timestamp_ms=1)
        await broker.produce(topic.id, 0, frame, alone=True)
    page = await broker.read_messages("work", 0, BrowseRequest(limit=10))
    assert [message.value for message in page.messages] == [b"0"], "readers see what all have"
    behind = asyncio.ensure_future(publish(broker, 3))
    nodes.cut_off.clear()
    await behind
    page = await broker.read_messages("work", 0, BrowseRequest(limit=10))
    assert [message.value for message in page.messages] == [b"0", b"1", b"frame 1", b"2", b"frame 2", b"3"]
    assert len(await received(broker, 6)) == 6
    await broker.stop()


async def test_frames_of_a_producer_wait_for_all_whatever_they_ask_for(patient_nodes: Nodes) -> None:
    nodes = patient_nodes
    broker, _ = await started(nodes, 0)
    topic = await broker.create_topic("work", {"partitions": 1})
    await broker.create_topic("other", {"partitions": 1})
    producer_id, epoch = await broker.init_producer(-1, -1)
    nodes.cut_off |= {1, 2}
    frame = build_frame([b"0"], timestamp_ms=1, producer_id=producer_id, producer_epoch=epoch, base_sequence=0)
    appended = broker.produce(topic.id, 0, frame, alone=True)
    await broker.publish("other", [NewMessage(value=b"1", acks="leader")])  # by then the frame is written
    assert not appended.done()
    nodes.cut_off.clear()
    assert (await appended).base_offset == 0
    await broker.stop()
