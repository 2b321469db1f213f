"""Message ids of a partition against what its log holds: any mix of frames, single messages, moves, transactions,
failed writes, restarts and clocks."""

import asyncio
import itertools
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import pytest
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st

from quiver.model.errors import DiskFull, MessageIdUndecided, OutOfSequence, QuiverError, UnknownProducer
from quiver.model.limits import Limits
from quiver.model.message import NewMessage
from quiver.model.topic import TopicConfig
from quiver.partition import message_ids
from quiver.partition.partition import Appended, Partition
from quiver.partition.producers import FIRST_RELAY_ID
from quiver.partition.settings import PartitionSettings, log_options
from quiver.records.build import build_frame
from quiver.records.check import check_frame
from quiver.records.header import unpack_header
from quiver.records.read import open_frame, split_frames
from quiver.storage.memory.storage import MemoryStorage

WINDOW_MS = 10_000
SLACK_MS = WINDOW_MS // 1024 + 1
NAMES = [b"a", b"b", b"c", b"d", b"e" * 40, b"f"]
IDS = st.lists(st.one_of(st.sampled_from(NAMES), st.none()), min_size=1, max_size=5)


class HandClock:
    def __init__(self) -> None:
        self.now = 1_700_000_000_000

    def now_ms(self) -> int:
        return self.now

    def monotonic(self) -> float:
        return self.now / 1000


class Send(NamedTuple):
    kind: str
    """frame, single, move, or the number of a producer; with "t" in front, one with transactions."""
    ids: list[bytes | None]


class Step(NamedTuple):
    sends: list[Send]
    fails: bool = False
    again: str = ""
    """The frames of producers are sent once more, as after a lost answer: at once, or after the broker was killed."""


class End(NamedTuple):
    producer: str
    commit: bool


class Sleep(NamedTuple):
    ms: int


class Restart(NamedTuple):
    is_clean: bool


class Row(NamedTuple):
    """A message in the log."""

    id: bytes | None
    value: bytes
    time_ms: int
    producer_id: int
    is_transactional: bool


KINDS = st.sampled_from(["frame", "frame", "single", "single", "move", "1", "2", "t3", "t4"])
SENDS = st.builds(Send, KINDS, IDS)
AGAIN = st.sampled_from(["", "at once", "killed"])
STEPS = st.one_of(
    st.builds(Step, st.lists(SENDS, min_size=1, max_size=4), st.sampled_from([False] * 5 + [True]), AGAIN),
    st.builds(Step, st.lists(SENDS, min_size=1, max_size=4), st.just(False), AGAIN),
    st.builds(End, st.sampled_from(["t3", "t4"]), st.booleans()),
    st.builds(Sleep, st.sampled_from([1, 500, WINDOW_MS // 2, WINDOW_MS, 2 * WINDOW_MS])),
    st.builds(Restart, st.booleans()),
)


class World:
    def __init__(self, durability: Any) -> None:
        self.clock = HandClock()
        self.storage = MemoryStorage()
        self.config = TopicConfig(durability=durability, dedup_window_ms=WINDOW_MS)
        self.partition: Partition
        self.sequences: dict[str, int] = {}
        self.epochs: dict[str, int] = {}
        self.moved = 0
        self.moved_ids: set[bytes | None] = set()
        self.values = 0
        self.aborted: set[int] = set()
        """Offsets."""
        self.answers: dict[bytes, int] = {}
        """By value, where messages were said to be that were new."""

    async def open(self) -> None:
        log = await self.storage.open_log("topics/1/0", log_options(self.config))
        self.partition = Partition(
            "t-0", log, PartitionSettings(self.config, Limits()), leader_epoch=1, clock=self.clock
        )
        await self.partition.recover()

    async def rows(self) -> dict[int, Row]:
        """The whole log, by offset."""
        found: dict[int, Row] = {}
        log = self.partition.log
        offset = log.start_offset
        while offset < log.end_offset and (part := await log.read(offset, max_bytes=1 << 20)) is not None:
            data = await part.read()
            for position, header in split_frames(data):
                offset = header.next_offset
                if header.is_control:
                    continue
                frame = open_frame(data, position)
                for at, id, value in zip(frame.offsets(), frame.ids(), frame.values(), strict=True):
                    time_ms, is_open = header.append_time_ms, header.is_transactional
                    found[at] = Row(id, value or b"", time_ms, header.producer_id, is_open)
        return found

    def new_values(self, count: int) -> list[bytes]:
        self.values += count
        return [b"%d" % number for number in range(self.values - count, self.values)]

    def begin(self, send: Send) -> "tuple[list[bytes], list[asyncio.Future[Appended]], bytes | None]":
        values = self.new_values(len(send.ids))
        if send.kind == "single":
            messages = [NewMessage(value=value, id=id) for value, id in zip(values, send.ids, strict=True)]
            return values, [self.partition.append_message(message) for message in messages], None
        options: dict[str, Any] = {}
        if send.kind == "move":
            options = {"producer_id": FIRST_RELAY_ID + 1, "producer_epoch": 0, "base_sequence": self.moved}
            self.moved += len(values)
            self.moved_ids.update(send.ids)
        elif send.kind != "frame":
            options = {
                "producer_id": int(send.kind[-1]),
                "producer_epoch": self.epochs.get(send.kind, 0),
                "base_sequence": self.sequences.get(send.kind, 0),
                "transactional": send.kind[0] == "t",
            }
            self.sequences[send.kind] = self.sequences.get(send.kind, 0) + len(values)
        frame = build_frame(values, timestamp_ms=1, ids=send.ids, **options)
        check_frame(frame, Limits())
        return values, [self.append(frame)], frame

    def append(self, frame: bytes) -> "asyncio.Future[Appended]":
        header = unpack_header(frame)
        return self.partition.append(frame, header, check_ids=header.producer_id < FIRST_RELAY_ID)

    @contextmanager
    def failing(self, fails: bool) -> Iterator[None]:
        if not fails:
            yield
            return

        async def fail(*_: object, **__: object) -> None:
            raise DiskFull(problem="the test says so")

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(self.partition.log, "append", fail)
            patch.setattr(self.partition.log, "append_at_once", lambda *_, **__: False)
            yield


def offsets_of(answer: Appended, count: int) -> list[tuple[int, bool]]:
    """Where each message of a frame is, and whether it is a duplicate."""
    known = {row: offset for row, offset, _ in answer.duplicates}
    new = itertools.count(answer.base_offset)
    return [(known[row], True) if row in known else (next(new), False) for row in range(count)]


async def send_all(world: World, step: Step) -> None:
    before = await world.rows()
    numbers = dict(world.sequences), world.moved
    begun: list[tuple[Send, list[bytes], list[asyncio.Future[Appended]], bytes | None]] = []
    with world.failing(step.fails):
        begun.extend((send, *world.begin(send)) for send in step.sends)
        answers = [await asyncio.gather(*futures, return_exceptions=True) for _, _, futures, _ in begun]
    rows = await world.rows()
    if step.fails:
        # Repeats of messages that are there need not be written; nothing else may be answered.
        assert rows == before
        world.sequences, world.moved = numbers
    refused: set[str] = set()
    for (send, values, _, _), outcome in zip(begun, answers, strict=True):
        if send.kind not in ("frame", "single", "move") and any(isinstance(each, QuiverError) for each in outcome):
            refused.add(send.kind)
        if send.kind == "single":
            for id, value, each in zip(send.ids, values, outcome, strict=True):
                judge(world, send, before, rows, [id], [value], each, step.fails)
        else:
            judge(world, send, before, rows, send.ids, values, outcome[0], step.fails)
    for kind in refused:
        renew(world, kind)
    assert set(world.answers) >= {row.value for row in rows.values()}, "something is stored that nobody was told of"
    if step.again and not step.fails:
        if step.again == "killed":
            await restart(world, Restart(is_clean=False))
        await send_again(world, begun, answers, rows, was_killed=step.again == "killed")
        for kind in list(world.sequences):
            renew(world, kind)


def renew(world: World, kind: str) -> None:
    """A frame of the producer is missing: it starts a new epoch, as clients do."""
    if kind[0] != "t":
        world.epochs[kind] = world.epochs.get(kind, 0) + 1
        world.sequences[kind] = 0
    else:
        state = world.partition.tables.producers.get(int(kind[-1]))
        is_same = state is not None and state.epoch == world.epochs.get(kind, 0)
        world.sequences[kind] = state.next_sequence if state is not None and is_same else 0


def judge(
    world: World,
    send: Send,
    before: dict[int, Row],
    rows: dict[int, Row],
    ids: list[bytes | None],
    values: list[bytes],
    answer: Appended | BaseException,
    is_failed: bool,
) -> None:
    now, producer = world.clock.now, int(send.kind[-1]) if send.kind[-1].isdigit() else -1
    if isinstance(answer, MessageIdUndecided) and not is_failed:
        event("undecided")
        assert any(rows[at].id in ids and rows[at].producer_id != producer for at in undecided(world, rows))
        return
    if isinstance(answer, QuiverError):
        return
    assert isinstance(answer, Appended), answer
    places = offsets_of(answer, len(ids))
    if send.kind == "single":
        places = [(answer.base_offset, answer.duplicate)]
    for id, value, (offset, is_duplicate) in zip(ids, values, places, strict=True):
        row = rows[offset]
        assert row.id == id
        assert offset not in world.aborted
        if is_duplicate:
            event("duplicate")
            assert id is not None
            assert row.value != value
            assert send.kind != "move"
            assert row.time_ms + WINDOW_MS + SLACK_MS > now
            assert row.producer_id == producer or offset not in undecided(world, rows)
        else:
            assert row.value == value
            world.answers[value] = offset
            if id is not None and send.kind != "move":
                assert not {at for at, each in before.items() if counts(each, id, now)} - world.aborted


def counts(row: Row, id: bytes, now: int) -> bool:
    """Moved messages count only where the id was not known, which is not followed here."""
    return row.id == id and row.time_ms + WINDOW_MS > now and row.producer_id < FIRST_RELAY_ID


def undecided(world: World, rows: dict[int, Row]) -> set[int]:
    """Offsets of messages whose transactions are open."""
    opened = world.partition.tables.transactions.open
    return {
        offset
        for offset, row in rows.items()
        if row.is_transactional and row.producer_id in opened and offset >= opened[row.producer_id].first_offset
    }


async def send_again(world: World, begun: Any, answers: Any, rows: dict[int, Row], *, was_killed: bool) -> None:
    """The frames of producers and moves are repeated, and each gets the answer it had.

    Where a move has brought the same id, it may be told of that message, or nothing certain. Of frames without a
    trace in the log a producer may be told to start a new epoch.
    """
    for (send, values, _, frame), [first, *_] in zip(begun, answers, strict=True):
        if frame is None or send.kind == "frame" or not isinstance(first, Appended):
            continue
        try:
            repeat = await world.append(frame)
        except (OutOfSequence, UnknownProducer):
            assert was_killed
            assert len(first.duplicates) == len(values)
            continue
        assert repeat.duplicate
        told = zip(send.ids, offsets_of(repeat, len(values)), offsets_of(first, len(values)), strict=True)
        is_blurred = bool(world.moved_ids & set(send.ids))
        for id, now, then in told:
            assert now == then or (is_blurred and (now[0] == -1 or rows[now[0]].id == id))
    assert await world.rows() == rows


async def end(world: World, step: End) -> None:
    producer, epoch = int(step.producer[-1]), world.epochs.get(step.producer, 0)
    before = await world.rows()
    opened = world.partition.tables.transactions.open.get(producer)
    marker = await world.partition.append_marker(producer, epoch, commit=step.commit)
    if opened is not None and not step.commit:
        for offset, row in before.items():
            if row.producer_id == producer and row.is_transactional and offset >= opened.first_offset:
                world.aborted.add(offset)
    assert (marker.base_offset >= 0) == (opened is not None)
    world.epochs[step.producer] = epoch + 1
    world.sequences[step.producer] = 0


async def restart(world: World, step: Restart) -> None:
    if step.is_clean:
        await world.partition.close()
    await world.open()
    for kind in list(world.sequences):
        renew(world, kind)


async def run(script: list[Any], durability: str) -> None:
    world = World(durability)
    await world.open()
    for step in script:
        if isinstance(step, Step):
            await send_all(world, step)
        elif isinstance(step, End):
            await end(world, step)
        elif isinstance(step, Sleep):
            world.clock.now += step.ms
        else:
            await restart(world, step)


@given(st.lists(STEPS, min_size=2, max_size=14), st.sampled_from(["fsync", "interval"]))
@settings(max_examples=250, suppress_health_check=[HealthCheck.too_slow], deadline=None)
def test_every_answer_is_true(script: list[Any], durability: str) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(message_ids, "_SEALED_IDS", 3)
        asyncio.run(run(script, durability))
