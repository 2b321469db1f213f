"""Files that cannot be read: what passes is tried again, and only what is lost is passed over."""

import errno
import os
from pathlib import Path

import pytest

from quiver.broker.broker import Broker
from quiver.model.errors import CorruptData, Overloaded, QuiverError
from quiver.model.message import NewMessage
from quiver.model.queue import ReceiveRequest
from quiver.queues.partition.frame_cache import READ_BYTES
from quiver.storage.local.settings import LocalSettings, LocalSystem
from quiver.storage.local.storage import LocalStorage
from quiver.storage.port import LogOptions
from quiver.system.files import Files
from unit.log.frames import frame_at, frame_bytes
from unit.queues.queue_broker import values

SMALL_SEGMENTS = LogOptions(durability="interval", segment_bytes=1)


class FilesOutOfReach(Files):
    """Segments cannot be opened while `error` is set."""

    error: int | None = None

    def open(self, path: Path, *, create: bool = False) -> int:
        if self.error is not None and path.suffix == ".log":
            raise OSError(self.error, os.strerror(self.error))
        return super().open(path, create=create)


async def opened(path: Path, files: Files) -> LocalStorage:
    storage = LocalStorage(path, LocalSettings(max_open_files=1, min_free_bytes=0), LocalSystem(files=files))
    await storage.open()
    return storage


@pytest.mark.parametrize("error", [errno.EMFILE, errno.ENFILE, errno.ENOMEM])
async def test_a_failure_that_passes_does_not_look_like_damage(tmp_path: Path, error: int) -> None:
    files = FilesOutOfReach()
    storage = await opened(tmp_path, files)
    log = await storage.open_log("a", SMALL_SEGMENTS)
    for offset in range(3):
        await log.append([frame_at(offset)])
    files.error = error
    for reading in (log.read(0, max_bytes=1), log.find_priority(0, 1 << 2)):
        with pytest.raises(Overloaded, match=os.strerror(error).lower()):
            await reading
    files.error = None
    found = await log.read(0, max_bytes=1)
    assert found is not None
    assert await found.read() == frame_bytes(frame_at(0))
    found.release()
    await storage.close()


async def test_a_segment_that_is_lost_takes_no_other_with_it(tmp_path: Path) -> None:
    storage = await opened(tmp_path, Files())
    log = await storage.open_log("a", SMALL_SEGMENTS)
    for offset in range(4):
        await log.append([frame_at(offset)])
    (tmp_path / "logs" / "a" / f"{1:020d}.log").unlink()
    for reading in (log.read(1, max_bytes=1), log.find_priority(1, 1 << 2)):
        with pytest.raises(CorruptData) as caught:
            await reading
        assert caught.value.details["next_offset"] == 2
    await storage.close()


async def test_a_queue_passes_over_nothing_that_can_be_read_later(tmp_path: Path) -> None:
    files = FilesOutOfReach()
    storage = await opened(tmp_path, files)
    broker = Broker(storage)
    await broker.start()
    topic = await broker.create_topic("jobs", {"partitions": 1})
    await broker.create_topic("other", {"partitions": 1})
    request = ReceiveRequest([topic.id], "g", "c", max_messages=1)
    large = [bytes([number]) * READ_BYTES for number in range(3)]  # each is read by itself
    for value in large[:2]:
        await broker.publish("jobs", [NewMessage(value=value)])
    assert values(await broker.queues.receive(request)) == large[:1]
    await broker.publish("other", [NewMessage(value=b"another file is opened, and the first one closed")])
    files.error = errno.EMFILE
    with pytest.raises(QuiverError, match="too many open files"):
        await broker.queues.receive(request)
    files.error = None
    await broker.publish("jobs", [NewMessage(value=large[2])])
    assert values([*await broker.queues.receive(request), *await broker.queues.receive(request)]) == large[1:]
    await broker.stop()
    await storage.close()
