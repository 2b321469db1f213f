"""What the memory engine does beyond the contract of all engines."""

import threading

from quiver.storage.memory.storage import MemoryStorage
from quiver.storage.port import Compaction, Log, LogOptions
from quiver.system.threads import ThreadPool


async def compact(log: Log) -> None:
    await log.compact(Compaction(end_offset=log.end_offset, now_ms=0, tombstone_retention_ms=0))


async def test_a_closed_storage_has_no_threads_and_can_be_used_again() -> None:
    threads_before = set(threading.enumerate())
    storage = MemoryStorage()
    for _ in range(2):
        await compact(await storage.open_log("a", LogOptions()))
        assert set(threading.enumerate()) > threads_before
        await storage.close()
        assert set(threading.enumerate()) == threads_before


async def test_threads_of_the_caller_are_not_closed() -> None:
    threads = ThreadPool(1, "mine")
    storage = MemoryStorage(threads)
    await compact(await storage.open_log("a", LogOptions()))
    await storage.close()
    assert await threads.run(len, "abc") == 3
    threads.close()
