"""The broker is killed at every file operation of dead-lettering and redriving; nothing is lost or duplicated."""

import asyncio
import shutil
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from threading import RLock
from typing import Any

from quiver.broker.broker import Broker
from quiver.dead_letters.search import Search
from quiver.messages.browse import BrowseRequest
from quiver.model.dead_letter import DeadLetterFilter
from quiver.model.message import NewMessage
from quiver.model.queue import ReceiveRequest
from quiver.model.settlement import ACK, REJECT, SettleRequest
from quiver.storage.local.settings import LocalSettings, LocalSystem
from quiver.storage.local.storage import LocalStorage
from quiver.system.clock import SystemClock
from quiver.system.files import Buffer, Files

VALUES = [b"a", b"b", b"c", b"d"]
HOUR_MS = 3_600_000
ALL = Search(DeadLetterFilter())


class CopyingFiles(Files):
    """Keeps a copy of the data directory as it is before each operation that changes it, while it is told to.

    Threads of the broker change it too: none of their operations is under way while a copy is made.
    """

    def __init__(self, root: Path) -> None:
        self._root = root
        self._lock = RLock()
        self._copies: Path | None = None
        self.count = 0

    def keep_copies(self, copies: Path | None) -> None:
        with self._lock:
            self._copies = copies

    def copy_to(self, path: Path) -> None:
        with self._lock:
            shutil.copytree(self._root, path)

    def _copy(self) -> None:
        if self._copies is not None:
            self.copy_to(self._copies / str(self.count))
            self.count += 1

    def pwritev(self, fd: int, buffers: Sequence[Buffer], position: int) -> int:
        with self._lock:
            self._copy()
            if self._copies is not None and sum(map(len, buffers)) > 1:
                super().pwritev(fd, [b"".join(buffers)[: sum(map(len, buffers)) // 2]], position)
                self._copy()
            return super().pwritev(fd, buffers, position)

    def open(self, path: Path, *, create: bool = False) -> int:
        with self._lock:
            return super().open(path, create=create)

    def truncate(self, fd: int, size: int) -> None:
        with self._lock:
            super().truncate(fd, size)
            self._copy()

    def make_directory(self, path: Path) -> None:
        with self._lock:
            super().make_directory(path)

    def write_file(self, path: Path, data: bytes, *, sync: bool = True) -> None:
        with self._lock:
            super().write_file(path, data, sync=sync)

    def rename(self, source: Path, target: Path) -> None:
        with self._lock:
            self._copy()
            super().rename(source, target)

    def remove(self, path: Path) -> None:
        with self._lock:
            self._copy()
            super().remove(path)

    def fdatasync(self, fd: int) -> None:
        """The page cache outlives a kill."""

    def sync_directory(self, path: Path) -> None:
        """So do names."""


class Later(SystemClock):
    """When every lease is over."""

    def now_ms(self) -> int:
        return super().now_ms() + HOUR_MS


class Running:
    """A broker on a directory, and the few things that the tests do with it."""

    def __init__(self, root: Path, files: Files | None = None, clock: SystemClock | None = None) -> None:
        self._storage = LocalStorage(root, LocalSettings(min_free_bytes=0), LocalSystem(files=files or Files()))
        self.broker = Broker(self._storage, clock=clock)

    async def __aenter__(self) -> "Running":
        await self._storage.open()
        await self.broker.start()
        return self

    async def __aexit__(self, *error: Any) -> None:
        await self.broker.stop()
        await self._storage.close()

    async def settle_all(self, action: int) -> list[bytes | None]:
        """Receives whatever there is and settles it; returns the values."""
        values: list[bytes | None] = []
        await self.broker.queues.expire_due()
        while received := await self.broker.queues.receive(
            ReceiveRequest([self.broker.topic("work").id], "g", consumer="c", max_messages=100)
        ):
            parts = []
            for one in received:
                run = one.run
                runs = [(run.start, run.end)]
                parts.append(SettleRequest(one.topic.id, run.partition, run.group_id, run.lease_id, action, runs))
            outcomes = await self.broker.queues.settle(parts)
            assert not any(outcome.refused for outcome in outcomes)
            page = await self.broker.read_messages("work", 0, BrowseRequest(limit=1000))
            by_offset = {message.offset: message.value for message in page.messages}
            values += [by_offset[n] for one in received for n in range(one.run.start, one.run.end)]
        return values

    async def dead_letters(self) -> list[bytes | None]:
        """The values of the dead letters, once all moves are done."""
        while any(
            run.outbox.open
            for topic in self.broker.topics()
            for run in self.broker.queues.partition_queues(topic.id).values()
        ):
            await asyncio.sleep(0)
        page = await self.broker.dead_letters.page("work", ALL)
        return [dead_letter.value for dead_letter in page.dead_letters]


async def begin(running: Running) -> None:
    await running.broker.create_topic("work", {"partitions": 1})
    await running.broker.publish("work", [NewMessage(value=value) for value in VALUES])


async def test_a_message_dies_once_wherever_the_broker_is_killed(tmp_path: Path) -> None:
    root = tmp_path / "data"
    files = CopyingFiles(root)
    async with Running(root, files) as running:
        await begin(running)
        files.keep_copies(tmp_path / "copies")
        assert await running.settle_all(REJECT) == VALUES
        assert sorted(await running.dead_letters()) == VALUES
        files.keep_copies(None)
    count = files.count
    assert count >= 10
    outcomes = set()
    for number in range(count):
        copied = tmp_path / "copies" / str(number)
        files = CopyingFiles(copied)
        async with Running(copied, files, clock=Later()) as running:
            dead_letters = await running.dead_letters()
            delivered = await running.settle_all(ACK)
            assert sorted([*dead_letters, *delivered]) == VALUES, f"killed at operation {number}"
            assert await running.dead_letters() == dead_letters
            outcomes.add(len(dead_letters))
            again = tmp_path / "again" / str(number)
            files.copy_to(again)
        async with Running(again, clock=Later()) as running:
            assert await running.settle_all(ACK) == [], f"killed at operation {number}, and once more"
            assert await running.dead_letters() == dead_letters
    assert outcomes == {0, len(VALUES)}


async def test_a_letter_is_sent_back_once_wherever_the_broker_is_killed(tmp_path: Path) -> None:
    root = tmp_path / "data"
    files = CopyingFiles(root)
    async with Running(root, files) as running:
        await begin(running)
        await running.settle_all(REJECT)
        await running.dead_letters()
        files.keep_copies(tmp_path / "copies")
        assert (await running.broker.dead_letters.redrive("work", ALL)).dead_letter_count == len(VALUES)
        assert await running.dead_letters() == []
        files.keep_copies(None)
    assert files.count > 5
    for number in range(files.count):
        async with Running(tmp_path / "copies" / str(number), clock=Later()) as running:
            dead_letters = await running.dead_letters()
            page = await running.broker.read_messages("work", 0, BrowseRequest(limit=1000))
            copies = Counter(message.value for message in page.messages)
            assert copies == Counter(VALUES) + Counter(set(VALUES) - set(dead_letters)), (
                f"killed at operation {number}"
            )
            assert sorted([*dead_letters, *await running.settle_all(ACK)]) == VALUES
