"""A journaled state machine: what it was told outlives a restart, and damage is a problem, not an empty state."""

import asyncio
from collections.abc import Iterator

import msgspec
import pytest

from quiver.model.errors import CorruptData, DiskFull, ShuttingDown
from quiver.storage.journaled_state import EventCodec, JournaledState
from quiver.storage.memory.storage import MemoryStorage
from quiver.system.clock import SystemClock
from quiver.testing.held_storage import HeldStorage

CODEC: EventCodec[int] = EventCodec(msgspec.json.encode, msgspec.json.Decoder(int).decode)


class Numbers:
    """A state machine that keeps the numbers it was told."""

    def __init__(self) -> None:
        self.numbers: list[int] = []

    def apply(self, event: int) -> None:
        if event not in self.numbers:
            self.numbers.append(event)

    def snapshot(self) -> Iterator[bytes]:
        yield msgspec.json.encode(self.numbers)

    def restore(self, data: bytes) -> None:
        self.numbers = msgspec.json.decode(data, type=list[int])


class Owner:
    def __init__(self, *, changes_first: bool = False) -> None:
        self.state = Numbers()
        self.journaled = JournaledState(
            "internal/numbers", self.state, CODEC, clock=SystemClock(), changes_first=changes_first
        )

    async def open(self, storage: MemoryStorage) -> "Owner":
        await self.journaled.open(storage, await storage.next_start_epoch())
        return self


@pytest.mark.parametrize("saved_after", [None, 1, 3])
@pytest.mark.parametrize("is_closed", [True, False])
async def test_what_was_appended_is_there_after_a_restart(saved_after: int | None, is_closed: bool) -> None:
    storage = MemoryStorage()
    owner = await Owner().open(storage)
    for number in (1, 2, 3):
        await owner.journaled.append(number)
        if number == saved_after:
            await owner.journaled.snapshot()
    assert owner.state.numbers == [1, 2, 3]
    if is_closed:
        await owner.journaled.close()
    assert (await Owner().open(storage)).state.numbers == [1, 2, 3]


async def test_a_close_saves_what_has_changed() -> None:
    storage = MemoryStorage()
    owner = await Owner().open(storage)
    await owner.journaled.append(1)
    await owner.journaled.close()
    again = await Owner().open(storage)
    assert again.state.numbers == [1]
    assert again.journaled.journal.replay_bytes == 0
    assert not again.journaled.is_snapshot_due(after_seconds=0)


async def test_an_event_is_applied_only_once_it_is_on_disk() -> None:
    storage = HeldStorage()
    owner = await Owner().open(storage)
    hold = storage.hold("internal/numbers", "append")
    appending = asyncio.ensure_future(owner.journaled.append(1))
    await hold.reached()
    assert owner.state.numbers == []
    hold.release(DiskFull(problem="no space left"))
    with pytest.raises(DiskFull):
        await appending
    assert owner.state.numbers == []


async def test_an_owner_that_changes_first_applies_events_at_start_up_only() -> None:
    storage = MemoryStorage()
    owner = await Owner(changes_first=True).open(storage)
    owner.state.numbers.append(1)
    await owner.journaled.write(1, sync=True)
    assert owner.state.numbers == [1]
    await owner.journaled.write(2, sync=False)
    assert owner.state.numbers == [1]
    assert (await Owner(changes_first=True).open(storage)).state.numbers == [1, 2]


async def test_a_snapshot_holds_nothing_that_may_still_be_taken_back() -> None:
    storage = HeldStorage()
    owner = await Owner(changes_first=True).open(storage)
    owner.state.numbers.append(1)
    hold = storage.hold("internal/numbers", "append")
    writing = asyncio.ensure_future(owner.journaled.write(1, sync=True))
    await hold.reached()
    saving = asyncio.ensure_future(owner.journaled.snapshot())
    for _ in range(10):  # as far as it comes by itself
        await asyncio.sleep(0)
    hold.release(DiskFull(problem="no space left"))
    with pytest.raises(DiskFull):
        await writing
    owner.state.numbers.remove(1)
    await saving
    assert (await Owner(changes_first=True).open(storage.as_after_a_kill())).state.numbers == []


async def test_a_damaged_journal_is_a_problem_and_refuses_work() -> None:
    storage = MemoryStorage()
    owner = await Owner().open(storage)
    with pytest.raises(msgspec.DecodeError):
        await owner.journaled.journal.append(b"no event")
    again = Owner()
    with pytest.raises(CorruptData):
        await again.open(storage)
    assert isinstance(again.journaled.problem, CorruptData)
    with pytest.raises(CorruptData):
        again.journaled.check()
    with pytest.raises(CorruptData):
        await again.journaled.append(1)
    await again.journaled.close()


async def test_a_state_that_rests_on_a_damaged_one_is_refused() -> None:
    owner = Owner()
    owner.journaled.refuse(CorruptData(where="internal/others", problem="damaged", next_offset=0))
    with pytest.raises(CorruptData, match="internal/others"):
        await owner.journaled.append(1)


async def test_nothing_is_taken_before_it_is_open_or_after_it_is_closed() -> None:
    owner = Owner()
    assert not owner.journaled.is_open
    with pytest.raises(ShuttingDown):
        await owner.journaled.append(1)
    await owner.open(MemoryStorage())
    await owner.journaled.close()
    with pytest.raises(ShuttingDown):
        await owner.journaled.append(1)
    assert owner.state.numbers == []
