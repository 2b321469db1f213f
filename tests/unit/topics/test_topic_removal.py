"""Deleting topics: gone at once for everybody, files in the background, and nothing is left behind."""

import asyncio
import gc
from pathlib import Path
from threading import Event

import pytest

from quiver.broker.broker import Broker
from quiver.broker.settings import BrokerSettings
from quiver.model.errors import TopicNotFound
from quiver.model.message import NewMessage
from quiver.model.queue import ReceiveRequest
from quiver.partition.partition import Partition
from quiver.storage.local.log import LocalLog
from quiver.storage.local.settings import LocalSystem
from quiver.storage.local.storage import LocalStorage
from quiver.system.files import Files
from quiver.topics.removal import TopicRemovals

PARTITIONS = 12


class SlowFiles(Files):
    """Removes nothing before it is allowed to."""

    def __init__(self) -> None:
        self.allowed, self.begun = Event(), Event()

    def remove_tree(self, path: Path) -> None:
        self.begun.set()
        self.allowed.wait()
        super().remove_tree(path)


class Host:
    def __init__(self, path: Path, files: Files | None = None) -> None:
        self.storage = LocalStorage(path, system=LocalSystem(files=files or Files()))
        # Maintenance would hold partitions for as long as it walks over them.
        self.broker = Broker(self.storage, settings=BrokerSettings(maintenance_seconds=3_600))

    async def start(self) -> "Host":
        await self.storage.open()
        await self.broker.start()
        return self

    async def stop(self) -> None:
        await self.broker.stop()
        await self.storage.close()

    async def fill(self, topic: str) -> None:
        await self.broker.create_topic(topic, {"partitions": PARTITIONS})
        await self.broker.publish(topic, [NewMessage(value=b"x", partition=n) for n in range(PARTITIONS)])

    async def logs(self) -> list[str]:
        return await self.storage.list_logs("topics")


async def _begun(files: SlowFiles) -> None:
    assert await asyncio.to_thread(files.begun.wait, 20)


async def test_other_topics_change_while_files_are_removed(tmp_path: Path) -> None:
    files = SlowFiles()
    host = await Host(tmp_path, files).start()
    await host.fill("old")
    deleting = asyncio.ensure_future(host.broker.delete_topic("old"))
    await _begun(files)
    async with asyncio.timeout(20):
        await host.broker.create_topic("old", {"partitions": 2})
        await host.broker.create_topic("new", {"partitions": 1})
        await host.broker.alter_topic("new", {"partitions": 2})
        [published] = await host.broker.publish("old", [NewMessage(value=b"y", partition=1)])
    assert (published.partition, published.offset) == (1, 0)
    assert not deleting.done()
    files.allowed.set()
    await deleting
    assert await host.logs() == ["topics/2/0", "topics/2/1", "topics/3/0", "topics/3/1"]
    await host.stop()


async def test_nobody_finds_a_topic_whose_files_are_still_there(tmp_path: Path) -> None:
    files = SlowFiles()
    host = await Host(tmp_path, files).start()
    await host.fill("old")
    topic_id = host.broker.topic("old").id
    deleting = asyncio.ensure_future(host.broker.delete_topic("old"))
    await _begun(files)
    for attempt in (
        host.broker.publish("old", [NewMessage(value=b"x")]),
        host.broker.describe("old"),
        host.broker.queues.receive(ReceiveRequest(["old"], "g", consumer="c")),
        host.broker.delete_topic("old"),
    ):
        with pytest.raises(TopicNotFound):
            await attempt
    with pytest.raises(TopicNotFound):
        host.broker.produce(topic_id, 0, b"")
    assert (await host.broker.stats()).topics == []
    files.allowed.set()
    await deleting
    await host.stop()


@pytest.mark.parametrize("deleted_by", ["stopped", "killed"])
async def test_the_next_start_removes_what_is_left(
    tmp_path: Path, deleted_by: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    host = await Host(tmp_path).start()
    await host.fill("old")
    await host.fill("kept")

    begun = asyncio.Event()

    async def interrupted(self: TopicRemovals, topic: object) -> None:
        begun.set()
        await asyncio.Event().wait()

    with monkeypatch.context() as patch:
        patch.setattr(TopicRemovals, "_remove", interrupted)
        deleting = asyncio.ensure_future(host.broker.delete_topic("old"))
        await begun.wait()
        if deleted_by == "stopped":
            await host.broker.stop()
        else:
            deleting.cancel()
        await asyncio.gather(deleting, return_exceptions=True)
        await host.storage.close()
    again = await Host(tmp_path).start()
    assert [topic.name for topic in again.broker.topics()] == ["kept"]
    assert again.broker.node.problems() == {}
    async with asyncio.timeout(20):
        while len(await again.logs()) > PARTITIONS:
            await asyncio.sleep(0)
    assert all(log_id.startswith(f"topics/{again.broker.topic('kept').id}/") for log_id in await again.logs())
    await again.stop()


async def test_a_deleted_topic_is_freed_without_the_garbage_collector(tmp_path: Path) -> None:
    """The collector does not look at what has lived for long in a large broker."""
    host = await Host(tmp_path).start()
    gc.collect()
    before = _counted()
    gc.disable()
    try:
        await host.fill("old")
        assert _counted() == (before[0] + PARTITIONS, before[1] + PARTITIONS)
        await host.broker.delete_topic("old")
        await asyncio.sleep(0)
        assert _counted() == before
    finally:
        gc.enable()
        await host.stop()


def _counted() -> tuple[int, int]:
    objects = gc.get_objects()
    return sum(type(each) is Partition for each in objects), sum(type(each) is LocalLog for each in objects)
