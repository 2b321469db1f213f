"""Moves carried out on real partitions: in order, once, through failures and restarts."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from quiver.model.errors import InvalidRequest, Overloaded
from quiver.model.limits import SEQUENCE_LIMIT, Limits
from quiver.model.message import NewMessage
from quiver.model.priority import Priority
from quiver.model.topic import TopicConfig
from quiver.outbox import relay as relay_module
from quiver.outbox.append import append_moved
from quiver.outbox.outbox import Move, Outbox, Target, mover_id
from quiver.outbox.packing import FRAME_BYTES, FRAME_MESSAGES, Placed, packed
from quiver.outbox.relay import OutboxRelay
from quiver.partition.partition import Partition
from quiver.partition.settings import PartitionSettings, log_options
from quiver.records.read import OpenFrame, open_frame, split_frames
from quiver.storage.memory.storage import MemoryStorage
from quiver.system.clock import SystemClock

MOVER = mover_id("dead_letters", 3, 0)
HERE, THERE = Target(0, 0), Target(9, 0)


async def open_partition(storage: MemoryStorage, number: int = 0) -> Partition:
    config = TopicConfig()
    log = await storage.open_log(f"topics/1/{number}", log_options(config))
    clock = SystemClock()
    partition = Partition(
        f"t-{number}", log, PartitionSettings(config, Limits(message_bytes=10)), leader_epoch=1, clock=clock
    )
    await partition.recover()
    return partition


@pytest.fixture
async def partition() -> AsyncIterator[Partition]:
    partition = await open_partition(MemoryStorage())
    yield partition
    await partition.close()


async def frames_of(partition: Partition) -> list[OpenFrame]:
    piece = await partition.log.read(0, max_bytes=1 << 24)
    if piece is None:
        return []
    data = await piece.read()
    piece.release()
    return [open_frame(data, position) for position, _ in split_frames(data)]


async def values_of(partition: Partition) -> list[bytes | None]:
    return [value for frame in await frames_of(partition) for value in frame.values()]


def message(value: bytes | None, **more: object) -> NewMessage:
    return NewMessage(value=value, timestamp_ms=5, **more)  # type: ignore[arg-type]


async def test_messages_arrive_as_they_were(partition: Partition) -> None:
    """Also above the topic's limit: they were accepted before."""
    rows = [
        message(b"v" * 100, key=b"k", headers={"a": b"1"}, priority=Priority.LOW, id=b"i", expires_at_ms=77),
        message(None, priority=Priority.LOW),
    ]
    appended = await append_moved(partition, mover=MOVER, sequence=0, messages=rows, schema_id=4)
    assert (appended.base_offset, appended.duplicate) == (0, False)
    [frame] = await frames_of(partition)
    assert frame.values() == [b"v" * 100, None]
    assert frame.keys() == [b"k", None]
    assert frame.headers() == [{"a": b"1"}, {}]
    assert frame.ids() == [b"i", None]
    assert frame.expires_at_ms() == [77, None]
    assert frame.timestamps() == [5, 5]
    assert (frame.header.priority, frame.header.schema_id) == (Priority.LOW, 4)


async def test_a_repeat_is_dropped_also_in_parts_and_after_a_restart() -> None:
    storage = MemoryStorage()
    partition = await open_partition(storage)
    start = SEQUENCE_LIMIT - 1
    await append_moved(partition, mover=MOVER, sequence=start, messages=[message(b"a"), message(b"b")])
    await partition.close()
    partition = await open_partition(storage)
    whole = await append_moved(partition, mover=MOVER, sequence=start, messages=[message(b"a"), message(b"b")])
    part = await append_moved(partition, mover=MOVER, sequence=start + 1, messages=[message(b"b")])
    other = await append_moved(partition, mover=MOVER + 4, sequence=start, messages=[message(b"c")])
    assert (whole.duplicate, whole.base_offset) == (True, 0)
    assert (part.duplicate, part.base_offset) == (True, -1)
    assert (other.duplicate, other.base_offset) == (False, 2)
    assert await values_of(partition) == [b"a", b"b", b"c"]


async def test_a_repeat_may_be_cut_otherwise(partition: Partition) -> None:
    rows = [message(value) for value in (b"a", b"b", b"c", b"d")]
    await append_moved(partition, mover=MOVER, sequence=7, messages=rows[:2])
    appended = await append_moved(partition, mover=MOVER, sequence=8, messages=rows[1:])
    assert (appended.base_offset, appended.duplicate) == (2, False)
    assert await values_of(partition) == [b"a", b"b", b"c", b"d"]


async def test_frames_are_cut_by_size_priority_schema_and_gap() -> None:
    def placed(place: int, size: int = 1, schema: int = 0, priority: Priority = Priority.NORMAL) -> Placed:
        return Placed(place, schema, size, message(b"%d" % place, priority=priority))

    async def slices() -> AsyncIterator[list[Placed]]:
        yield [placed(0), placed(1, FRAME_BYTES), placed(2)]
        yield [placed(4), placed(5, schema=1), placed(6, schema=1, priority=Priority.LOW)]
        yield [placed(place) for place in range(7, 8 + FRAME_MESSAGES)]

    frames = [frame async for frame in packed(slices())]
    assert [(frame.place, len(frame.messages)) for frame in frames] == [
        (0, 1), (1, 1), (2, 1), (4, 1), (5, 1), (6, 1), (7, FRAME_MESSAGES), (7 + FRAME_MESSAGES, 1)
    ]  # fmt: skip
    assert [frame.schema_id for frame in frames[3:6]] == [0, 1, 1]


async def test_a_message_without_a_timestamp_is_refused(partition: Partition) -> None:
    with pytest.raises(InvalidRequest):
        await append_moved(partition, mover=MOVER, sequence=0, messages=[NewMessage(value=b"x")])


class Shell:
    """An owner: its outbox, its relay, and what the journal would know."""

    def __init__(self, partition: Partition, outbox: Outbox) -> None:
        self.partition = partition
        self.outbox = outbox
        self.noted: list[int] = []
        self.failures: dict[int, list[Exception]] = {}
        self.after: list[int] = []
        """Moves that fail once after they have been appended."""
        self.relay = OutboxRelay("test", outbox, self)

    async def carry(self, move: Move) -> None:
        if self.failures.get(move.id):
            raise self.failures[move.id].pop(0)
        rows = [message(value) for value in move.content]
        mover = MOVER if move.target == HERE else MOVER + 4
        await append_moved(self.partition, mover=mover, sequence=move.sequence, messages=rows)
        if move.id in self.after:
            self.after.remove(move.id)
            raise OSError("the answer was lost")

    async def note_done(self, move: Move) -> None:
        self.noted.append(move.id)

    def begin(self, *values: bytes, target: Target = HERE) -> Move:
        return self.outbox.begin(target, len(values), list(values))


@pytest.fixture
async def shell(partition: Partition, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Shell]:
    monkeypatch.setattr(relay_module, "FIRST_PAUSE_SECONDS", 0.001)
    shell = Shell(partition, Outbox())
    yield shell
    await shell.relay.close()


async def test_moves_are_carried_out_in_order_and_noted(shell: Shell) -> None:
    moves = [shell.begin(b"a", b"b"), shell.begin(b"c"), shell.begin(b"d")]
    shell.relay.submit(moves)
    assert await shell.relay.finished(moves, within_seconds=10)
    assert await values_of(shell.partition) == [b"a", b"b", b"c", b"d"]
    assert shell.outbox.open == {}
    assert await shell.relay.finished(moves, within_seconds=0)
    assert shell.noted[:2] == [1, 2]


async def test_a_move_waits_for_one_that_was_begun_before_it(shell: Shell) -> None:
    first, second = shell.begin(b"a"), shell.begin(b"b")
    elsewhere = shell.begin(b"x", target=THERE)
    shell.relay.submit([second])
    shell.relay.submit([elsewhere])
    assert await shell.relay.finished([elsewhere], within_seconds=10)
    assert await values_of(shell.partition) == [b"x"]
    shell.relay.submit([first])
    assert await shell.relay.finished([first, second], within_seconds=10)
    assert await values_of(shell.partition) == [b"x", b"a", b"b"]


async def test_a_move_that_was_taken_back_holds_nobody_up(shell: Shell) -> None:
    lost, kept = shell.begin(b"lost"), shell.begin(b"kept")
    shell.relay.submit([kept])
    await asyncio.sleep(0)
    shell.outbox.take_back(lost)
    shell.relay.taken_back()
    assert await shell.relay.finished([kept], within_seconds=10)
    assert await values_of(shell.partition) == [b"kept"]


async def test_failures_are_tried_again_and_hold_up_their_own_target_alone(shell: Shell) -> None:
    stuck, behind = shell.begin(b"a"), shell.begin(b"b")
    other = shell.begin(b"x", target=THERE)
    shell.failures[stuck.id] = [Overloaded(problem="full"), OSError("disk"), ValueError("a bug")] * 3
    shell.after = [behind.id]
    shell.relay.submit([stuck, behind, other])
    assert await shell.relay.finished([other], within_seconds=10)
    assert await shell.relay.finished([stuck, behind], within_seconds=10)
    assert await values_of(shell.partition) == [b"x", b"a", b"b"]
    assert sorted(shell.noted) == [stuck.id, behind.id, other.id]


async def test_what_is_open_at_the_end_is_carried_out_by_the_next_one(shell: Shell) -> None:
    """Killed with one move appended and not noted, one not appended, and one behind it."""
    appended, stuck, behind = shell.begin(b"a"), shell.begin(b"b"), shell.begin(b"c")
    await shell.carry(appended)
    shell.failures[stuck.id] = [OSError("disk")] * 1_000_000
    image = shell.outbox.image()
    shell.relay.submit([appended, stuck, behind])
    assert not await shell.relay.finished([behind], within_seconds=0.01)
    await shell.relay.close()
    outbox = Outbox()
    outbox.restore(image)
    successor = Shell(shell.partition, outbox)
    moves = list(outbox.open.values())
    successor.relay.submit(moves)
    assert await successor.relay.finished(moves, within_seconds=10)
    assert await values_of(shell.partition) == [b"a", b"b", b"c"]
    await successor.relay.close()


async def test_a_relay_that_has_closed_takes_nothing(shell: Shell) -> None:
    await shell.relay.close()
    move = shell.begin(b"a")
    shell.relay.submit([move])
    assert not await shell.relay.finished([move], within_seconds=0)
    assert await values_of(shell.partition) == []


@pytest.mark.parametrize("ending", ["close", "take back"])
async def test_whoever_waits_is_told_at_once_when_a_move_will_not_be_done(shell: Shell, ending: str) -> None:
    stuck = shell.begin(b"a")
    shell.failures[stuck.id] = [OSError("disk")] * 1_000_000
    shell.relay.submit([stuck])
    waiting = [asyncio.create_task(shell.relay.finished([stuck], within_seconds=3600)) for _ in range(2)]
    await asyncio.sleep(0)
    if ending == "close":
        await shell.relay.close()
    else:
        shell.outbox.take_back(stuck)
        shell.relay.taken_back()
    assert await asyncio.wait_for(asyncio.gather(*waiting), 10) == [False, False]


async def test_an_end_that_cannot_be_noted_holds_up_no_other_move(
    shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def done(move: Move) -> None:
        raise ValueError("a bug")

    monkeypatch.setattr(shell, "note_done", done)
    moves = [shell.begin(b"a"), shell.begin(b"b")]
    shell.relay.submit(moves)
    assert await shell.relay.finished(moves, within_seconds=10)
    assert await values_of(shell.partition) == [b"a", b"b"]
