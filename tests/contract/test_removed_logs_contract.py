"""Logs come and go for as long as a broker runs: those that are deleted leave nothing in memory."""

from contract.conftest import EngineUnderTest
from quiver.storage.port import Storage
from unit.live_objects import grown, live_objects
from unit.log.frames import frame_at

ROUNDS = 40


async def _round(storage: Storage, under_test: EngineUnderTest, number: int) -> None:
    directory = f"topics/{number}"
    log = await storage.open_log(f"{directory}/0", under_test.options)
    await log.append([frame_at(offset, body=b"x" * 100) for offset in range(3)])
    await log.append([frame_at(3)], sync=False)
    if (part := await log.read(0, max_bytes=1_000)) is not None:
        part.release()
    await log.save_snapshot(log.end_offset, b"state")
    await storage.delete_logs(directory)


async def test_deleted_logs_leave_nothing(storage: Storage, under_test: EngineUnderTest) -> None:
    for number in range(1, 11):
        await _round(storage, under_test, number)
    before = live_objects()
    for number in range(11, 11 + ROUNDS):
        await _round(storage, under_test, number)
    assert not grown(before, live_objects(), ROUNDS // 2)
