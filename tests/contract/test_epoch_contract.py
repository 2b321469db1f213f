"""Where leader epochs ended: as every engine must tell it, whatever became of their frames."""

from collections.abc import Awaitable, Callable

from contract.conftest import EngineUnderTest
from quiver.storage.port import Log, Storage
from unit.log.frames import frame_at
from unit.log.keyed import everything, keyed_frame, stored_frames

Reopen = Callable[[Storage], Awaitable[Storage]]


async def ends(log: Log, *epochs: int) -> list[int]:
    return [await log.end_offset_of_epoch(epoch) for epoch in epochs]


async def test_compaction_moves_no_end(under_test: EngineUnderTest, storage: Storage, reopen: Reopen) -> None:
    log = await storage.open_log("topics/1/0", under_test.options)
    for epoch in (1, 2, 3):
        for _ in range(20):
            await log.append([keyed_frame(log.end_offset, [(b"one key", bytes(500))] * 10, epoch=epoch)])
    await log.append([keyed_frame(log.end_offset, [(b"one key", None)], epoch=3)])
    await log.roll()
    known = await ends(log, 0, 1, 2, 3, 4)
    assert known == [0, 200, 400, 601, 601]
    await log.compact(everything(log, tombstone_retention_ms=0))
    await log.compact(everything(log, tombstone_retention_ms=0, now_ms=20_000))
    assert len(await stored_frames(log)) <= 1, "hardly a frame is left to tell"
    assert await ends(log, 0, 1, 2, 3, 4) == known
    if under_test.keeps_frames_over_reopen:
        log = await (await reopen(storage)).open_log("topics/1/0", under_test.options)
        assert await ends(log, 0, 1, 2, 3, 4) == known


async def test_retention_moves_no_end_above_the_start(
    under_test: EngineUnderTest, storage: Storage, reopen: Reopen
) -> None:
    log = await storage.open_log("topics/1/0", under_test.options)
    for epoch in (2, 4, 6):
        await log.append([frame_at(log.end_offset, count=10, epoch=epoch)])
        await log.roll()
    assert await log.drop_front(15) == 10
    assert await ends(log, 1, 2, 3, 4, 5, 6) == [10, 10, 10, 20, 20, 30]
    await log.drop_front(30)
    await log.append([frame_at(30, count=10, epoch=9)])
    assert await ends(log, 2, 5, 6, 8, 9) == [30, 30, 30, 30, 40]
    if under_test.keeps_frames_over_reopen:
        log = await (await reopen(storage)).open_log("topics/1/0", under_test.options)
        assert await ends(log, 2, 5, 6, 8, 9) == [30, 30, 30, 30, 40]


async def test_truncation_takes_epochs_along(under_test: EngineUnderTest, storage: Storage, reopen: Reopen) -> None:
    log = await storage.open_log("topics/1/0", under_test.options)
    for epoch in (1, 2, 3):
        await log.append([frame_at(log.end_offset, count=10, epoch=epoch)])
    await log.truncate(20)
    assert await ends(log, 1, 2, 3) == [10, 20, 20]
    await log.truncate(10)
    await log.append([frame_at(10, count=5, epoch=2)])
    assert await ends(log, 1, 2, 3) == [10, 15, 15]
    if under_test.keeps_frames_over_reopen:
        log = await (await reopen(storage)).open_log("topics/1/0", under_test.options)
        assert await ends(log, 1, 2, 3) == [10, 15, 15]


async def test_one_append_may_have_frames_of_several_epochs(under_test: EngineUnderTest, storage: Storage) -> None:
    log = await storage.open_log("topics/1/0", under_test.options)
    await log.append([frame_at(0, count=10, epoch=1), frame_at(20, count=10, epoch=4), frame_at(30, epoch=4)])
    assert await ends(log, 0, 1, 3, 4) == [0, 10, 10, 31]
