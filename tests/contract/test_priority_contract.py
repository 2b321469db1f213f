"""Finding and counting the messages of a priority, in every engine."""

import msgspec
import pytest

from contract.conftest import EngineUnderTest
from quiver.model.priority import Priority
from quiver.records.header import StampedFrame
from quiver.storage.port import Log, Storage
from unit.log.frames import frame_at

ALL = 0b11111
CRITICAL, NORMAL, LOW = 1 << Priority.CRITICAL, 1 << Priority.NORMAL, 1 << Priority.LOW


@pytest.fixture
async def log(storage: Storage, under_test: EngineUnderTest) -> Log:
    return await storage.open_log("topics/1/0", under_test.options)


def frames_of(priorities: dict[int, Priority], count: int, *, start: int = 0) -> list[StampedFrame]:
    """Frames of 10 messages each; normal, but for those that are named by their number."""
    return [
        frame_at(
            start + 10 * n,
            count=10,
            body=bytes(1_000),
            time_ms=1_000 + start + n,
            priority=priorities.get(n, Priority.NORMAL),
        )
        for n in range(count)
    ]


async def append_singly(log: Log, frames: list[StampedFrame]) -> None:
    for frame in frames:
        await log.append([frame])


class TestFinding:
    async def test_an_empty_log_has_none(self, log: Log) -> None:
        assert await log.find_priority(0, ALL) is None
        assert await log.count_by_priority(0) == [0] * 5

    async def test_the_frame_at_the_offset_itself(self, log: Log) -> None:
        await append_singly(log, frames_of({}, 30))
        assert await log.find_priority(0, NORMAL) == 0
        assert await log.find_priority(290, NORMAL) == 290
        assert await log.find_priority(290, ALL) == 290

    async def test_inside_a_frame_it_is_the_frame(self, log: Log) -> None:
        await append_singly(log, frames_of({1: Priority.LOW}, 3))
        assert await log.find_priority(17, LOW) == 10
        assert await log.find_priority(19, NORMAL) == 20

    async def test_over_many_segments(self, log: Log) -> None:
        await append_singly(log, frames_of({7: Priority.CRITICAL, 250: Priority.CRITICAL, 251: Priority.LOW}, 300))
        assert await log.find_priority(0, CRITICAL) == 70
        assert await log.find_priority(70, CRITICAL) == 70
        assert await log.find_priority(80, CRITICAL) == 2_500
        assert await log.find_priority(80, LOW | CRITICAL) == 2_500
        assert await log.find_priority(2_510, LOW | CRITICAL) == 2_510
        assert await log.find_priority(2_510, CRITICAL) is None
        assert await log.find_priority(0, 1 << Priority.BACKGROUND) is None
        assert await log.find_priority(0, 0) is None
        assert await log.find_priority(3_000, ALL) is None

    async def test_one_append_over_many_segments(self, log: Log) -> None:
        await log.append(frames_of({199: Priority.LOW}, 200))
        assert await log.find_priority(0, LOW) == 1_990

    async def test_what_is_appended_is_found_at_once(self, log: Log) -> None:
        frames = frames_of({n: Priority(n % 5) for n in range(100)}, 100)
        for n, frame in enumerate(frames):
            await log.append([frame])
            assert await log.find_priority(10 * n, 1 << n % 5) == 10 * n
            assert await log.find_priority(10 * n, ALL & ~(1 << n % 5)) is None

    async def test_a_hole_is_skipped(self, log: Log) -> None:
        await append_singly(log, frames_of({}, 2))
        await append_singly(log, frames_of({0: Priority.LOW}, 2, start=1_000))
        assert await log.find_priority(500, NORMAL) == 1_010
        assert await log.find_priority(20, LOW) == 1_000

    async def test_below_the_start_it_begins_at_the_start(self, log: Log) -> None:
        await append_singly(log, frames_of({0: Priority.LOW}, 300))
        start = await log.drop_front(1_500)
        assert start > 0
        assert await log.find_priority(0, NORMAL) == start
        assert await log.find_priority(0, LOW) is None
        assert await log.count_by_priority(0) == [0, 0, 3_000 - start, 0, 0]


class TestCounting:
    async def test_by_priority_from_every_place(self, log: Log) -> None:
        frames = frames_of({n: Priority(n * 7 % 5) for n in range(0, 200, 3)}, 200)
        await append_singly(log, frames)
        for offset in (0, 1, 9, 10, 615, 1_000, 1_239, 1_990, 1_999, 2_000):
            expected = [0] * 5
            for header in (frame.header for frame in frames):
                expected[header.priority] += max(0, header.next_offset - max(offset, header.base_offset))
            assert await log.count_by_priority(offset) == expected


class TestChanges:
    async def test_truncation(self, log: Log) -> None:
        await append_singly(log, frames_of({150: Priority.CRITICAL, 20: Priority.LOW}, 200))
        await log.truncate(1_500)
        assert await log.find_priority(0, CRITICAL) is None
        assert await log.count_by_priority(0) == [0, 0, 1_490, 10, 0]
        await append_singly(log, frames_of({5: Priority.CRITICAL}, 10, start=1_500))
        assert await log.find_priority(0, CRITICAL) == 1_550
        assert await log.count_by_priority(0) == [10, 0, 1_580, 10, 0]

    async def test_truncation_to_nothing(self, log: Log) -> None:
        await append_singly(log, frames_of({0: Priority.LOW}, 5))
        await log.truncate(0)
        assert await log.find_priority(0, ALL) is None
        await append_singly(log, frames_of({}, 5))
        assert await log.find_priority(0, LOW) is None
        assert await log.count_by_priority(0) == [0, 0, 50, 0, 0]

    async def test_roll_and_drop_everything(self, log: Log) -> None:
        await append_singly(log, frames_of({0: Priority.LOW}, 5))
        await log.roll()
        assert await log.find_priority(0, LOW) == 0
        await log.drop_front(50)
        assert await log.find_priority(50, ALL) is None
        assert await log.count_by_priority(50) == [0] * 5

    async def test_a_clean_reopen(self, storage: Storage, under_test: EngineUnderTest, reopen) -> None:  # type: ignore[no-untyped-def]
        log = await storage.open_log("a", under_test.options)
        await append_singly(log, frames_of({3: Priority.LOW, 99: Priority.CRITICAL}, 100))
        storage = await reopen(storage)
        log = await storage.open_log("a", under_test.options)
        kept = under_test.keeps_frames_over_reopen
        assert await log.find_priority(0, LOW) == (30 if kept else None)
        await append_singly(log, frames_of({0: Priority.CRITICAL, 1: Priority.LOW}, 2, start=1_000))
        assert await log.find_priority(40, LOW) == 1_010
        assert await log.find_priority(40, CRITICAL) == (990 if kept else 1_000)
        assert await log.count_by_priority(0) == ([20, 0, 980, 20, 0] if kept else [10, 0, 0, 10, 0])

    async def test_durability_may_change(self, storage: Storage, under_test: EngineUnderTest) -> None:
        log = await storage.open_log("a", under_test.options)
        frames = frames_of(dict.fromkeys(range(19, 200, 40), Priority.CRITICAL), 200)
        turns = ["fsync", "memory", "interval", "memory", "fsync"]
        for n, frame in enumerate(frames):
            if n % 40 == 0:
                log.configure(msgspec.structs.replace(under_test.options, durability=turns[n // 40]))
            await log.append([frame])
            assert await log.count_by_priority(0) == [10 * ((n + 21) // 40), 0, 10 * (n + 1 - (n + 21) // 40), 0, 0]
        for n in range(200):
            following = n + (19 - n) % 40
            assert await log.find_priority(10 * n, CRITICAL) == (10 * following if following < 200 else None)
