"""The broker ends at every single file operation of a commit and of an abort: it is all there, or nothing is.

It is killed, and the files stay as they are; or the power goes, and of what was not synced any part is left.
"""

import asyncio
import random
from collections.abc import Sequence
from pathlib import Path
from threading import RLock
from typing import Any, NamedTuple

import pytest
from tests.unit.dead_letters.test_dead_letter_crashes import HOUR_MS, CopyingFiles, Later

from quiver.broker.broker import Broker
from quiver.messages.browse import BrowseRequest
from quiver.model.errors import ProducerFenced
from quiver.model.message import NewMessage
from quiver.model.names import TopicPartition
from quiver.model.queue import ReceiveRequest
from quiver.model.transaction import CommitPart, GroupOffsetCommit, LeasedAcks, ProducerKey
from quiver.storage.local.settings import LocalSystem
from quiver.storage.local.storage import LocalStorage
from quiver.system.files import Buffer, Files
from quiver.testing.power_cut import PowerCutFiles
from unit.storage.unsynced import Unsynced

PARTITIONS = 3


class Seen(NamedTuple):
    """What is left of the transaction after a restart."""

    out: list[bytes | None]
    more: list[bytes | None]
    delayed: int
    offset: int | None
    leased_again: list[int]


async def open_broker(root: Path, files: Any = None, clock: Any = None) -> tuple[Broker, LocalStorage]:
    storage = LocalStorage(root) if files is None else LocalStorage(root, system=LocalSystem(files=files))
    await storage.open()
    broker = Broker(storage, clock=clock)
    await broker.start()
    return broker, storage


async def shut(broker: Broker, storage: LocalStorage) -> None:
    await broker.stop()
    await storage.close()


async def look(broker: Broker) -> Seen:
    async def read(topic: str) -> list[bytes | None]:
        pages = [
            await broker.read_messages(topic, n, BrowseRequest())
            for n in range(broker.topic(topic).config.partitions)
        ]
        return [message.value for page in pages for message in page.messages]

    await broker.queues.expire_due()
    jobs = await broker.queues.receive(ReceiveRequest([broker.topic("jobs").id], "workers", consumer="after"))
    place = TopicPartition(broker.topic("in").id, 0)
    committed = broker.streams.group("g").offsets.get(place) if broker.groups.find("g") else None
    return Seen(
        await read("out"),
        await read("more"),
        (await broker.delays.page("more", skip=0, limit=10)).total,
        None if committed is None else committed.offset,
        [offset for one in jobs for offset in range(one.run.start, one.run.end)],
    )


NOTHING = Seen([], [], 0, None, [0])
EVERYTHING = Seen([b"0", b"1", b"2"], [b"3"], 1, 1, [])


class CuttingFiles(PowerCutFiles):
    """Keeps what a power cut may leave before each operation that changes something, while it is told to."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.turn = RLock()
        self._copies: Path | None = None
        self.count = 0

    def keep_copies(self, copies: Path | None) -> None:
        with self.turn:
            self._copies = copies

    def _copy(self) -> None:
        if self._copies is not None:
            self.cut(self._copies / str(self.count), random.Random(self.count))
            self.count += 1

    def pwritev(self, fd: int, buffers: Sequence[Buffer], position: int) -> int:
        with self.turn:
            self._copy()
            return super().pwritev(fd, buffers, position)

    def fdatasync(self, fd: int) -> None:
        with self.turn:
            self._copy()
            super().fdatasync(fd)

    def sync_directory(self, path: Path) -> None:
        with self.turn:
            self._copy()
            super().sync_directory(path)

    def rename(self, source: Path, target: Path) -> None:
        with self.turn:
            self._copy()
            super().rename(source, target)

    def remove(self, path: Path) -> None:
        with self.turn:
            self._copy()
            super().remove(path)

    def truncate(self, fd: int, size: int) -> None:
        with self.turn:
            self._copy()
            super().truncate(fd, size)

    def open(self, path: Path, *, create: bool = False) -> int:
        with self.turn:
            return super().open(path, create=create)

    def make_directory(self, path: Path) -> None:
        with self.turn:
            super().make_directory(path)


class MuchLater(Later):
    """When the leases of whoever looked after the first restart are over, too."""

    def now_ms(self) -> int:
        return super().now_ms() + HOUR_MS


async def run_to_the_end(
    root: Path, copies: Path, files: "CopyingFiles | CuttingFiles", *, commit: bool
) -> tuple[ProducerKey, int, int]:
    """The producer, and how many copies there were when every frame was answered, and in the end."""
    broker, storage = await open_broker(root, files)
    for name in ("in", "jobs", "out", "more"):
        await broker.create_topic(name, {"partitions": PARTITIONS if name == "out" else 1})
    await broker.publish("in", [NewMessage(value=b"in")])
    await broker.publish("jobs", [NewMessage(value=b"job")])
    [job] = await broker.queues.receive(ReceiveRequest([broker.topic("jobs").id], "workers", consumer="c"))
    key = await broker.transactions.init("id")
    copies.mkdir()
    files.keep_copies(copies)
    for number in range(PARTITIONS):
        message = NewMessage(value=b"%d" % number, partition=number)
        await broker.transactions.publish(key.producer_id, key.epoch, "out", message)
    await broker.transactions.publish(key.producer_id, key.epoch, "more", NewMessage(value=b"3"))
    far = NewMessage(value=b"4", deliver_at_ms=broker.clock.now_ms() + 30 * 86_400_000)
    await broker.transactions.publish(key.producer_id, key.epoch, "more", far)
    sent = files.count
    run = job.run
    acks = [LeasedAcks(job.topic.id, 0, run.group_id, run.lease_id, [(run.start, run.end)])]
    offsets = [GroupOffsetCommit("g", [CommitPart(broker.topic("in").id, 0, 1)])]
    if commit:
        await broker.transactions.commit([key], offsets=offsets, acks=acks)
    else:
        await broker.transactions.add_offsets(key.producer_id, key.epoch, offsets)
        await broker.transactions.add_acks(key.producer_id, key.epoch, acks)
        await broker.transactions.abort([key])
    await broker.transactions._applier.flush()
    await broker.transactions._coordinator.maintain()
    files.keep_copies(None)
    count = files.count
    await shut(broker, storage)
    return key, sent, count


@pytest.mark.parametrize("commit", [True, False])
def test_killed_at_every_operation(tmp_path: Path, commit: bool) -> None:
    asyncio.run(every_operation(tmp_path, CopyingFiles(tmp_path / "data"), commit=commit))


@pytest.mark.parametrize("commit", [True, False])
def test_a_power_cut_at_every_operation(tmp_path: Path, commit: bool) -> None:
    """And another one as soon as it is ready again: what was seen then stays."""
    (tmp_path / "data").mkdir()
    asyncio.run(every_operation(tmp_path, CuttingFiles(tmp_path / "data"), commit=commit))


async def every_operation(tmp_path: Path, files: CopyingFiles | CuttingFiles, *, commit: bool) -> None:
    copies = tmp_path / "copies"
    key, sent, count = await run_to_the_end(tmp_path / "data", copies, files, commit=commit)
    assert sent < count
    seen = set()
    for number in range(count):
        participant = tmp_path / f"participant-{number}"
        participant.mkdir()
        (copies / str(number)).rename(participant / "data")
        first = CuttingFiles(participant / "data") if isinstance(files, CuttingFiles) else Unsynced()
        is_whole = await check(participant / "data", first, key, is_sent=number >= sent, number=number)
        seen.add(is_whole)
        if isinstance(first, CuttingFiles):
            again = await check(participant / "again", Unsynced(), key, is_sent=number >= sent, number=number)
            assert again == is_whole, f"operation {number}"
    assert seen == ({True, False} if commit else {False})


async def check(root: Path, files: Files, key: ProducerKey, *, is_sent: bool, number: int) -> bool:
    """Whether everything is there, and not nothing. What a power cut then leaves is in `again` beside it."""
    if isinstance(files, CuttingFiles):
        all_is_on_disk(root, files)
    broker, storage = await open_broker(root, files, clock=Later() if root.name == "data" else MuchLater())
    assert (await broker.transactions.stats()).active == 0
    assert broker.node.problems() == {}
    found = await look(broker)
    assert found in (NOTHING, EVERYTHING), f"operation {number}"
    if found == EVERYTHING:
        answer = await broker.transactions.commit([key])
        assert answer.is_repeat
        assert answer.producers == [ProducerKey(key.producer_id, key.epoch + 1)]
    elif is_sent:
        with pytest.raises(ProducerFenced):
            await broker.transactions.commit([key])
    if isinstance(files, CuttingFiles):
        with files.turn:
            files.cut(root.with_name("again"), random.Random(number))
    await shut(broker, storage)
    return found == EVERYTHING


def all_is_on_disk(root: Path, files: CuttingFiles) -> None:
    """As it is found at a start."""
    for path in [root, *root.rglob("*")]:
        if path.is_dir():
            files.sync_directory(path)
        else:
            fd = files.open(path)
            files.fdatasync(fd)
            files.close(fd)
