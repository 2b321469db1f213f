"""The way of changes into the journal: their order, what they share, and what happens when it takes no more."""

import asyncio
import sys

import pytest

from quiver.model.errors import DiskFull
from quiver.queues.journal.events import Acked, Event, Forgotten, MoveDone, WrittenAt
from quiver.queues.journal.recorder import Recorder, decode_record
from quiver.storage.journal import OPTIONS_FOR_WRITE, Journal
from quiver.system.clock import SystemClock
from unit.queues.partition.queue_partition import START_MS, HandClock, MoodyStorage


class Book:
    """A journal and what a broker would read from it."""

    def __init__(self) -> None:
        self.storage = MoodyStorage()

    async def open(self) -> Recorder:
        journal = await self._journal([])
        return Recorder(journal, HandClock())

    async def records(self) -> list[list[Event]]:
        """Without the time that each begins with."""
        found: list[list[Event]] = []
        await self._journal(found)
        assert all(record[0] == WrittenAt(START_MS) for record in found)
        return [record[1:] for record in found]

    async def _journal(self, found: list[list[Event]]) -> Journal:
        return await Journal.open(
            self.storage,
            "topics/1/0-delivery",
            epoch=1,
            clock=SystemClock(),
            restore=lambda _: None,
            apply=lambda record: found.append(decode_record(record)),
            options=OPTIONS_FOR_WRITE,
        )


async def test_what_was_put_before_goes_with_the_next_flush() -> None:
    book = Book()
    recorder = await book.open()
    recorder.put([Forgotten(1)])
    recorder.put([Forgotten(2), MoveDone(3)])
    assert await book.records() == []
    await recorder.flush(sync=False)
    await recorder.flush(sync=True)
    assert await book.records() == [[Forgotten(1), Forgotten(2), MoveDone(3)]]


async def test_changes_gather_while_the_journal_is_busy() -> None:
    book = Book()
    recorder = await book.open()
    book.storage.is_slow = True

    async def change(number: int) -> None:
        recorder.put([MoveDone(number)])
        await recorder.flush(sync=True)

    await asyncio.gather(*(change(number) for number in range(20)))
    records = await book.records()
    assert [event for record in records for event in record] == [MoveDone(number) for number in range(20)]
    assert len(records) <= 2


@pytest.mark.parametrize("is_slow", [False, True])
async def test_a_write_that_fails_undoes_what_can_be_undone_and_keeps_the_rest_in_its_place(is_slow: bool) -> None:
    book = Book()
    recorder = await book.open()
    book.storage.is_full, book.storage.is_slow = True, is_slow
    undone: list[int] = []
    recorder.put([Forgotten(1)])
    recorder.put([MoveDone(2)], lambda: undone.append(2))
    recorder.put([MoveDone(3)], lambda: undone.append(3))
    with pytest.raises(DiskFull):
        await recorder.flush(sync=True)
    assert undone == [3, 2]
    assert recorder.is_stuck
    recorder.put([Forgotten(4)])
    book.storage.is_full = False
    await recorder.flush(sync=True)
    assert not recorder.is_stuck
    assert [event for record in await book.records() for event in record] == [Forgotten(1), Forgotten(4)]


async def test_whoever_flushes_during_a_write_waits_for_what_was_put_before_it() -> None:
    book = Book()
    recorder = await book.open()
    book.storage.is_slow = True
    recorder.put([MoveDone(1)])
    first = asyncio.ensure_future(recorder.flush(sync=False))
    await asyncio.sleep(0)
    book.storage.is_full = True
    second = asyncio.ensure_future(recorder.flush(sync=False))
    results = await asyncio.gather(first, second, return_exceptions=True)
    assert [type(result) for result in results] == [DiskFull, DiskFull]
    book.storage.is_full = False
    await recorder.flush(sync=False)
    assert [event for record in await book.records() for event in record] == [MoveDone(1)]


async def test_a_caller_that_gives_up_takes_nothing_with_it() -> None:
    book = Book()
    recorder = await book.open()
    book.storage.is_slow = book.storage.is_full = True
    undone: list[int] = []
    recorder.put([MoveDone(1)], lambda: undone.append(1))
    caller = asyncio.ensure_future(recorder.flush(sync=True))
    await asyncio.sleep(0)
    caller.cancel()
    while not undone:
        await asyncio.sleep(0)
    assert undone == [1]


async def test_much_is_written_in_several_records() -> None:
    book = Book()
    recorder = await book.open()
    events = [Acked(1, 2**40 + lease, [(n, n + 1) for n in range(20_000)]) for lease in range(40)]
    for event in events:
        recorder.put([event])
    await recorder.flush(sync=True)
    records = await book.records()
    assert [event for record in records for event in record] == events
    assert 1 < len(records) < 40


async def test_a_failure_concerns_only_what_is_not_in_the_records_before_it() -> None:
    book = Book()
    recorder = await book.open()
    undone: list[int] = []

    async def change(lease: int) -> None:
        recorder.put([acks(lease)], lambda: undone.append(lease))
        await recorder.flush(sync=False)

    book.storage.is_slow, book.storage.writes_left = True, 2
    results = await asyncio.gather(*map(change, range(4)), return_exceptions=True)
    assert [type(result) for result in results] == [type(None), type(None), DiskFull, DiskFull]
    assert undone == [3, 2]
    book.storage.writes_left = sys.maxsize
    await recorder.flush(sync=True)
    assert await book.records() == [[acks(0)], [acks(1)]]


async def test_a_change_that_is_written_in_part_stays() -> None:
    book = Book()
    recorder = await book.open()
    undone: list[int] = []
    recorder.put([acks(lease) for lease in range(3)], lambda: undone.append(0))
    recorder.put([MoveDone(1)], lambda: undone.append(1))
    recorder.put([MoveDone(2)])
    book.storage.writes_left = 1
    with pytest.raises(DiskFull):
        await recorder.flush(sync=True)
    assert undone == [1]
    assert recorder.is_stuck
    book.storage.writes_left = sys.maxsize
    await recorder.flush(sync=True)
    assert [event for record in await book.records() for event in record] == [*map(acks, range(3)), MoveDone(2)]


def acks(lease: int) -> Acked:
    """Two of them are more than a record takes."""
    return Acked(1, 2**40 + lease, [(n, n + 1) for n in range(100_000)])
