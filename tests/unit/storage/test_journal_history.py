"""A journal that keeps more than its snapshots need: for how long, how much, and what a start makes of it."""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from quiver.model.limits import KIB
from quiver.storage.history import NO_HISTORY, History
from quiver.storage.journal import Journal
from quiver.storage.local.storage import LocalStorage
from quiver.storage.memory.storage import MemoryStorage
from quiver.storage.port import LogOptions, Storage
from quiver.system.clock import Clock

LOG_ID = "topics/1/0-delivery"
OPTIONS = LogOptions(durability="interval", segment_bytes=8 * KIB)
HOUR_MS = 3_600_000
RECORD = bytes(KIB)


class HourClock(Clock):
    """An hour passes with every round."""

    def __init__(self) -> None:
        self.hours = 1

    def now_ms(self) -> int:
        return self.hours * HOUR_MS

    def monotonic(self) -> float:
        return self.hours * 3600.0


class Owner:
    """Counts the records that were ever written."""

    def __init__(self, storage: Storage, clock: Clock, history: History) -> None:
        self.storage, self.clock, self.history = storage, clock, history
        self.count = self.applied = 0

    async def open(self) -> "Owner":
        self.count = self.applied = 0
        epoch = await self.storage.next_start_epoch()
        self.journal = await Journal.open(
            self.storage,
            LOG_ID,
            epoch=epoch,
            clock=self.clock,
            restore=self._restore,
            apply=self._apply,
            options=OPTIONS,
            history=self.history,
        )
        self.log = await self.storage.open_log(LOG_ID, OPTIONS)
        return self

    async def write(self, count: int) -> None:
        for _ in range(count):
            self.count += 1
            await self.journal.write(RECORD, sync=False)

    async def snapshot(self) -> None:
        await self.journal.snapshot_concurrently(self._encode)

    def _encode(self) -> Iterator[bytes]:
        yield str(self.count).encode()

    def _restore(self, data: bytes) -> None:
        self.count = int(data)

    def _apply(self, record: bytes) -> None:
        self.applied += 1
        self.count += 1


@pytest.fixture(params=["memory", "local"])
async def storage(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Storage]:
    if request.param == "memory":
        yield MemoryStorage()
        return
    local = LocalStorage(tmp_path)
    await local.open()
    yield local
    await local.close()


async def rounds(storage: Storage, history: History, count: int = 12) -> Owner:
    """Twenty records an hour and a snapshot behind them."""
    clock = HourClock()
    owner = await Owner(storage, clock, history).open()
    for _ in range(count):
        await owner.write(20)
        await owner.snapshot()
        clock.hours += 1
    return owner


async def test_without_one_only_what_snapshots_need_stays(storage: Storage) -> None:
    owner = await rounds(storage, NO_HISTORY)
    assert 9 * 20 <= owner.log.start_offset <= 10 * 20, "the oldest of three snapshots"


async def test_by_age(storage: Storage) -> None:
    owner = await rounds(storage, History(5 * HOUR_MS, 1024 * KIB))
    oldest_kept = (
        20 * 7
    )  # the last snapshot is of the twelfth hour: what was written in the seventh is five hours old
    assert 20 * 5 <= owner.log.start_offset <= oldest_kept
    assert (await owner.log.offset_for_time(0)) == owner.log.start_offset


async def test_by_bytes(storage: Storage) -> None:
    owner = await rounds(storage, History(1000 * HOUR_MS, 120 * KIB))
    assert 100 * KIB < owner.log.size_bytes <= 120 * KIB
    assert 0 < owner.log.start_offset < 9 * 20


async def test_all_of_it_while_it_is_little_and_new(storage: Storage) -> None:
    owner = await rounds(storage, History(1000 * HOUR_MS, 1024 * KIB))
    assert owner.log.start_offset == 0


async def test_what_snapshots_need_stays_however_little_is_allowed(storage: Storage) -> None:
    owner = await rounds(storage, History(1, 1))
    assert 8 * 20 <= owner.log.start_offset <= 10 * 20


async def test_a_start_replays_from_the_snapshot(storage: Storage) -> None:
    owner = await rounds(storage, History(1000 * HOUR_MS, 1024 * KIB))
    await owner.write(3)
    await owner.journal.close()
    again = await Owner(storage, owner.clock, owner.history).open()
    assert (again.count, again.applied) == (owner.count, 3)
    assert again.log.start_offset == 0


async def test_a_setting_that_is_lowered_takes_effect_with_the_next_snapshots(storage: Storage) -> None:
    owner = await rounds(storage, History(1000 * HOUR_MS, 1024 * KIB))
    await owner.journal.close()
    again = await Owner(storage, owner.clock, NO_HISTORY).open()
    for _ in range(3):
        await again.write(1)
        await again.snapshot()
    assert again.log.start_offset >= 11 * 20
