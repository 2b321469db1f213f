"""What a partition saves when it is closed: what the next start would read for long, and what no log tells."""

import asyncio
import contextlib

import pytest

from quiver.model.limits import Limits
from quiver.model.message import NewMessage
from quiver.model.topic import TopicConfig
from quiver.partition.partition import Partition
from quiver.partition.settings import PartitionSettings, log_options
from quiver.records.build import build_frame
from quiver.records.header import unpack_header
from quiver.storage.memory.storage import MemoryStorage
from quiver.storage.port import Snapshot
from quiver.system.clock import SystemClock
from quiver.testing.held_storage import HeldStorage


async def opened(storage: MemoryStorage) -> Partition:
    config = TopicConfig()
    log = await storage.open_log("topics/1/0", log_options(config))
    partition = Partition("t-0", log, PartitionSettings(config, Limits()), leader_epoch=1, clock=SystemClock())
    await partition.recover()
    return partition


async def saved(storage: MemoryStorage) -> Snapshot | None:
    return await (await storage.open_log("topics/1/0", log_options(TopicConfig()))).load_snapshot()


async def send(partition: Partition, sequence: int, *, ids: list[bytes | None] | None = None) -> None:
    frame = build_frame([b"v"], ids=ids, timestamp_ms=1, producer_id=7, producer_epoch=0, base_sequence=sequence)
    await partition.append(frame, unpack_header(frame))


@pytest.mark.parametrize(("frames", "is_saved"), [(1, False), (100, True)])
async def test_little_is_read_again_and_much_is_saved(frames: int, is_saved: bool) -> None:
    storage = MemoryStorage()
    partition = await opened(storage)
    for sequence in range(frames):
        await send(partition, sequence)
    await partition.close()
    assert (await saved(storage) is not None) == is_saved
    again = await opened(storage)
    assert again.next_sequence(7, 0) == frames
    assert again.log.end_offset == frames


async def test_message_ids_are_saved() -> None:
    storage = MemoryStorage()
    partition = await opened(storage)
    await partition.append_message(NewMessage(value=b"v", id=b"a"))
    await partition.close()
    assert await saved(storage) is not None
    again = await opened(storage)
    assert (await again.append_message(NewMessage(value=b"v", id=b"a"))).duplicate


async def test_whoever_stops_waiting_for_a_snapshot_does_not_end_it() -> None:
    """Others wait for the same one, among them the writer, before it removes messages."""
    storage = HeldStorage()
    partition = await opened(storage)
    await send(partition, 0)
    hold = storage.hold("topics/1/0", "sync")
    first = asyncio.ensure_future(partition.saved_state.save_now(roll=False))
    await hold.reached()
    purging = asyncio.ensure_future(partition.purge())
    for _ in range(5):  # the writer waits for the snapshot now
        await asyncio.sleep(0)
    first.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await first
    hold.release()
    async with asyncio.timeout(10):
        await purging
        await send(partition, 1)
    assert await saved(storage) is not None
    assert (partition.log.start_offset, partition.log.end_offset) == (1, 2)


async def test_messages_that_were_written_are_not_kept_in_memory() -> None:
    """However many partitions there are: the last message of each may be large."""
    partition = await opened(MemoryStorage())
    await partition.append_message(NewMessage(value=bytes(1 << 20)))
    assert partition._open_batches == {}
