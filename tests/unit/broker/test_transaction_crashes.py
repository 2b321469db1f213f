"""The broker is killed at every single file operation of a commit and of an abort: it is all there, or nothing is."""

import asyncio
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from tests.unit.broker.test_dead_letter_crashes import CopyingFiles, Later

from quiver.broker.broker import Broker
from quiver.groups.assignors import TopicPartition
from quiver.model.errors import ProducerFenced
from quiver.model.message import NewMessage
from quiver.protocol.group_messages import CommitPart
from quiver.protocol.transaction_messages import GroupOffsets, LeasedAcks, ProducerKey
from quiver.storage.local import LocalStorage


class Seen(NamedTuple):
    """What is left of the transaction after a restart."""

    out: list[bytes | None]
    more: list[bytes | None]
    delayed: int
    offset: int | None
    leased_again: list[int]


async def open_broker(root: Path, files: Any = None, clock: Any = None) -> tuple[Broker, LocalStorage]:
    storage = LocalStorage(root) if files is None else LocalStorage(root, files=files)
    await storage.open()
    broker = Broker(storage, clock=clock)
    await broker.start()
    return broker, storage


async def shut(broker: Broker, storage: LocalStorage) -> None:
    await broker.stop()
    await storage.close()


async def look(broker: Broker) -> Seen:
    async def read(topic: str) -> list[bytes | None]:
        return [message.value for message in (await broker.read_messages(topic, 0)).messages]

    await broker.queues.attend_to_times()
    jobs = await broker.queues.receive(["jobs"], "workers", consumer="after")
    groups = broker.groups.service.groups()
    committed = groups["g"].offsets.get(TopicPartition(broker.topic("in").id, 0)) if "g" in groups else None
    return Seen(
        await read("out"),
        await read("more"),
        broker.delays.page("more", skip=0, limit=10).total,
        None if committed is None else committed.offset,
        [offset for one in jobs for offset in range(one.delivery.start, one.delivery.end)],
    )


NOTHING = Seen([], [], 0, None, [0])
EVERYTHING = Seen([b"1", b"2"], [b"3"], 1, 1, [])


async def run_to_the_end(root: Path, copies: Path, *, commit: bool) -> tuple[ProducerKey, int, int]:
    """The producer, and how many copies there were when every frame was answered, and in the end."""
    files = CopyingFiles(root)
    broker, storage = await open_broker(root, files)
    for name in ("in", "jobs", "out", "more"):
        await broker.create_topic(name, {"partitions": 1})
    await broker.publish("in", [NewMessage(value=b"in")])
    await broker.publish("jobs", [NewMessage(value=b"job")])
    [job] = await broker.queues.receive(["jobs"], "workers", consumer="c")
    key = await broker.transactions.init("id")
    copies.mkdir()
    files.copies = copies
    for topic, value in (("out", b"1"), ("out", b"2"), ("more", b"3")):
        await broker.transactions.publish(key.producer_id, key.epoch, topic, NewMessage(value=value))
    far = NewMessage(value=b"4", deliver_at_ms=broker.clock.now_ms() + 30 * 86_400_000)
    await broker.transactions.publish(key.producer_id, key.epoch, "more", far)
    sent = files.count
    run = job.delivery
    acks = [LeasedAcks(job.topic.id, 0, run.group_id, run.lease_id, [(run.start, run.end)])]
    offsets = [GroupOffsets("g", [CommitPart(broker.topic("in").id, 0, 1)])]
    if commit:
        await broker.transactions.commit([key], offsets=offsets, acks=acks)
    else:
        await broker.transactions.add_offsets(key.producer_id, key.epoch, offsets)
        await broker.transactions.add_acks(key.producer_id, key.epoch, acks)
        await broker.transactions.abort([key])
    await broker.transactions._finishing.settle()
    await broker.transactions._coordinator.keep_up()
    files.copies = None
    count = files.count
    await shut(broker, storage)
    return key, sent, count


@pytest.mark.parametrize("commit", [True, False])
def test_at_every_operation(tmp_path: Path, commit: bool) -> None:
    asyncio.run(every_operation(tmp_path, commit))


async def every_operation(tmp_path: Path, commit: bool) -> None:
    copies = tmp_path / "copies"
    key, sent, count = await run_to_the_end(tmp_path / "data", copies, commit=commit)
    assert sent < count
    seen = set()
    for number in range(count):
        broker, storage = await open_broker(copies / str(number), clock=Later())
        assert broker.transactions.stats().active == 0
        found = await look(broker)
        assert found in (NOTHING, EVERYTHING), f"operation {number}"
        seen.add(found == EVERYTHING)
        if found == EVERYTHING:
            answer = await broker.transactions.commit([key])
            assert answer.is_repeat
            assert answer.producers == [ProducerKey(key.producer_id, key.epoch + 1)]
        elif number >= sent:
            with pytest.raises(ProducerFenced):
                await broker.transactions.commit([key])
        await shut(broker, storage)
    assert seen == ({True, False} if commit else {False})
