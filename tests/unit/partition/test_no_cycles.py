"""What an append needs is freed when it is done, without the garbage collector, which looks rarely."""

import asyncio
import gc
from pathlib import Path

import pytest

from quiver.model.limits import Limits
from quiver.model.message import NewMessage
from quiver.model.topic import TopicConfig
from quiver.partition.partition import Partition
from quiver.partition.settings import PartitionSettings, log_options
from quiver.records.build import build_frame
from quiver.records.header import unpack_header
from quiver.storage.local.settings import LocalSettings
from quiver.storage.local.storage import LocalStorage
from quiver.system.clock import SystemClock

APPENDS = 50


async def append(partition: Partition, *, shared: bool) -> None:
    if shared:
        appended = [partition.append_message(NewMessage(value=b"x")) for _ in range(APPENDS)]
    else:
        frames = [build_frame([b"x"], timestamps_ms=[1]) for _ in range(APPENDS)]
        appended = [partition.append(frame, unpack_header(frame)) for frame in frames]
    await asyncio.gather(*appended)


@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("durability", ["fsync", "interval"])
async def test_appends_leave_no_cycles(tmp_path: Path, durability: str, shared: bool) -> None:
    storage = LocalStorage(tmp_path, LocalSettings(min_free_bytes=0))
    await storage.open()
    config = TopicConfig(durability=durability)  # type: ignore[arg-type]
    log = await storage.open_log("topics/1/0", log_options(config))
    partition = Partition("t-0", log, PartitionSettings(config, Limits()), leader_epoch=1, clock=SystemClock())
    await partition.recover()
    await append(partition, shared=shared)  # makes what stays
    gc.collect()
    gc.disable()
    try:
        found = []
        for _ in range(3):  # once at least without what other tests of this process have left
            for _ in range(5):
                await append(partition, shared=shared)
            found.append(gc.collect())
        assert min(found) < APPENDS, found
    finally:
        gc.enable()
    await partition.close()
    await storage.close()
