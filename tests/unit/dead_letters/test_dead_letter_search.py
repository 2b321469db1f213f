"""Looking through dead letters, against a list that is sorted and filtered."""

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quiver.dead_letters import search as dead_letter_search
from quiver.dead_letters.headers import DeadLetterOrigin, to_dead_letter
from quiver.dead_letters.search import DeadLetterPartition, Search, find_dead_letters
from quiver.messages.stored_rows import StoredRow
from quiver.model.dead_letter import DeadLetter, DeadLetterCursor, DeadLetterFilter
from quiver.model.limits import Limits
from quiver.model.message import NewMessage
from quiver.model.topic import TopicConfig
from quiver.outbox.append import append_again
from quiver.partition.partition import Partition
from quiver.partition.settings import PartitionSettings, log_options
from quiver.queues.state.port import Dead
from quiver.storage.memory.storage import MemoryStorage
from quiver.structures.interval_set import IntervalSet
from quiver.system.clock import Clock

REASONS = ("max_attempts", "rejected", "expired")


class HandClock(Clock):
    def __init__(self) -> None:
        self.ms = 1_000

    def now_ms(self) -> int:
        return self.ms

    def monotonic(self) -> float:
        return self.ms / 1000


async def open_partitions(count: int, clock: Clock) -> list[Partition]:
    storage, config = MemoryStorage(), TopicConfig()
    return [
        Partition(
            f"t.dlq-{number}",
            await storage.open_log(f"topics/1/{number}", log_options(config)),
            PartitionSettings(config, Limits()),
            leader_epoch=1,
            clock=clock,
        )
        for number in range(count)
    ]


def dead_message(number: int, reason: str) -> NewMessage:
    message = NewMessage(value=b"value %d" % number, key=b"k%d" % (number % 3), timestamp_ms=5)
    dead = Dead(number, number + 1, 2, 4, 0, reason, f"error {number % 7}")
    return to_dead_letter(StoredRow(number, 10, 0, message), DeadLetterOrigin("t", 0, f"g{number % 2}", 20, dead))


async def filled(plan: Sequence[tuple[int, int, int]], count: int = 3) -> list[DeadLetterPartition]:
    """Boxes with dead letters: (partition, dead letters in the frame, milliseconds that pass behind it)."""
    clock = HandClock()
    partitions = await open_partitions(count, clock)
    number = 0
    for partition, dead_letters, pause_ms in plan:
        messages = [dead_message(number + n, REASONS[(number + n) % 3]) for n in range(dead_letters)]
        await append_again(partitions[partition], messages=messages)
        number += dead_letters
        clock.ms += pause_ms
    return [DeadLetterPartition(number, partition, IntervalSet()) for number, partition in enumerate(partitions)]


async def found(sources: Sequence[DeadLetterPartition], search: Search) -> list[DeadLetter]:
    return [dead_letter async for dead_letter in find_dead_letters(sources, search)]


PLANS = st.lists(st.tuples(st.integers(0, 2), st.integers(1, 6), st.integers(0, 2)), max_size=12)
TIMES = st.none() | st.integers(999, 1_020)
FILTERS = st.builds(
    DeadLetterFilter,
    ids=st.none() | st.lists(st.tuples(st.integers(0, 3), st.integers(0, 30)), max_size=8),
    partition=st.none() | st.integers(0, 3),
    group=st.sampled_from([None, "g0", "g9"]),
    reason=st.sampled_from([None, *REASONS]),
    key=st.sampled_from([None, b"k1"]),
    contains=st.sampled_from([None, b"value 1", b"error 3"]),
    from_time_ms=TIMES,
    to_time_ms=TIMES,
)


def naive(dead_letters: Sequence[DeadLetter], search: Search) -> list[DeadLetter]:
    wanted, after = search.filter, search.after

    def fits(dead_letter: DeadLetter) -> bool:
        return (
            wanted.fits(dead_letter)
            and (wanted.ids is None or dead_letter.id in wanted.ids)
            and (wanted.partition is None or dead_letter.partition == wanted.partition)
            and (wanted.from_time_ms is None or dead_letter.died_at_ms >= wanted.from_time_ms)
            and (wanted.to_time_ms is None or dead_letter.died_at_ms <= wanted.to_time_ms)
            and (after is None or (dead_letter.cursor < after if search.newest_first else dead_letter.cursor > after))
        )

    ordered = sorted(dead_letters, key=lambda dead_letter: dead_letter.cursor, reverse=search.newest_first)
    return [dead_letter for dead_letter in ordered if fits(dead_letter)]


@given(PLANS, FILTERS, st.booleans(), st.data())
async def test_the_search_finds_what_fits_in_order(
    plan: list[tuple[int, int, int]], wanted: DeadLetterFilter, newest_first: bool, data: st.DataObject
) -> None:
    sources = await filled(plan)
    everything = await found(sources, Search(DeadLetterFilter()))
    assert len(everything) == sum(dead_letters for _, dead_letters, _ in plan)
    for start, length in data.draw(st.lists(st.tuples(st.integers(0, 20), st.integers(1, 5)), max_size=3)):
        sources[start % 3].removed.add(start, start + length)
    left = [
        dead_letter for dead_letter in everything if dead_letter.offset not in sources[dead_letter.partition].removed
    ]
    cursors = [dead_letter.cursor for dead_letter in everything] + [
        DeadLetterCursor(1_001, 1, 0),
        DeadLetterCursor(0, 0, 0),
    ]
    search = Search(wanted, data.draw(st.none() | st.sampled_from(cursors)), newest_first)
    assert await found(sources, search) == naive(left, search)


@given(PLANS, st.integers(1, 5), st.booleans())
async def test_pages_join_without_gap_or_repeat(
    plan: list[tuple[int, int, int]], size: int, newest_first: bool
) -> None:
    sources = await filled(plan)
    whole = await found(sources, Search(DeadLetterFilter(), newest_first=newest_first))
    pages: list[DeadLetter] = []
    while True:
        after = pages[-1].cursor if pages else None
        page = (await found(sources, Search(DeadLetterFilter(), after, newest_first)))[:size]
        if not page:
            break
        pages += page
    assert pages == whole


async def test_windows_that_hold_too_much_are_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dead_letter_search, "_WINDOW_MESSAGES", 16)
    monkeypatch.setattr(dead_letter_search, "_WINDOW_BYTES", 600)
    sources = await filled([(0, 6, 1)] * 10, count=1)
    whole = await found(sources, Search(DeadLetterFilter()))
    assert await found(sources, Search(DeadLetterFilter(), newest_first=True)) == whole[::-1]


async def test_letters_that_come_or_go_while_looking() -> None:
    sources = await filled([(0, 5, 1), (0, 5, 1)], count=1)
    seen = []
    async for dead_letter in find_dead_letters(sources, Search(DeadLetterFilter())):
        if not seen:
            sources[0].removed.add(6, 8)
            await append_again(sources[0].partition, messages=[dead_message(99, "expired")])
        seen.append(dead_letter.offset)
    assert seen == [0, 1, 2, 3, 4, 5, 8, 9]
