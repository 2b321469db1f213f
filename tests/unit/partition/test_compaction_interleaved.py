"""Passes of compaction in steps, and between any two of them appends, transactions, retention, restarts and reads.

What readers of committed messages see is compared with a model that knows every message that was ever sent.
"""

import asyncio
from collections.abc import AsyncGenerator, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from quiver.log.compaction.job import Job, Report
from quiver.log.compaction.segment_pass import run_pass
from quiver.log.compaction.source import BadFrame
from quiver.log.compaction.worker import failure
from quiver.model.errors import Closed, OffsetOutOfRange
from quiver.model.limits import Limits
from quiver.model.topic import TopicConfig
from quiver.partition.compaction import compact
from quiver.partition.partition import Partition
from quiver.partition.settings import PartitionSettings, log_options
from quiver.records.aborted_frames import AbortedFrames
from quiver.records.build import build_frame
from quiver.records.check import check_frame
from quiver.records.read import open_frame, split_frames
from quiver.storage.local.settings import LocalSettings, LocalSystem
from quiver.storage.local.storage import LocalStorage
from quiver.storage.port import Compacted, FrameSlice
from quiver.system.clock import SystemClock
from quiver.system.files import Files

CONFIG = TopicConfig(cleanup="compact,delete", segment_bytes=64 * 1024, durability="interval")
KEYS = [b"a", b"b", b"c", b"d", b"e"]
ROWS = st.lists(st.tuples(st.sampled_from(KEYS), st.none() | st.binary(max_size=4)), min_size=1, max_size=5)
Row = tuple[bytes, bytes | None]


class Send(NamedTuple):
    rows: list[Row]
    producer: int = -1


class End(NamedTuple):
    producer: int
    commit: bool


class Roll(NamedTuple):
    pass


class Retain(NamedTuple):
    share: float
    """How much of the range of offsets may go."""


class Pass(NamedTuple):
    """Begins a pass, or lets the one that is under way go on by a step."""


class Read(NamedTuple):
    reader: int
    max_bytes: int
    holds: bool
    """The bytes are found now, and looked at with the reader's next step."""


class Restart(NamedTuple):
    pass


SENDS = st.builds(Send, ROWS, st.sampled_from([-1, 1, 2]))
READS = st.builds(Read, st.integers(0, 2), st.sampled_from([1, 900, 100_000]), st.booleans())
STEPS = st.lists(
    st.one_of(
        SENDS,
        SENDS,
        st.builds(End, st.integers(1, 2), st.booleans()),
        st.builds(End, st.integers(1, 2), st.booleans()),
        st.builds(Roll),
        st.builds(Pass),
        st.builds(Pass),
        READS,
        READS,
        st.builds(Retain, st.floats(0, 1)),
        st.builds(Restart),
    ),
    min_size=10,
    max_size=60,
)


class SteppingCompactor:
    """Does the work here and now, and gives a report when it is told to."""

    def __init__(self) -> None:
        self._waits, self._go = asyncio.Event(), asyncio.Event()

    async def reports(self, job: Job) -> AsyncGenerator[Report, None]:
        steps = run_pass(job, Files())
        while (report := _next(steps)) is not None:
            self._waits.set()
            await self._go.wait()
            self._go.clear()
            yield report

    async def settle(self, under_way: "asyncio.Task[Compacted]") -> None:
        """Returns when a pass waits, or is over."""
        waits = asyncio.ensure_future(self._waits.wait())
        await asyncio.wait({under_way, waits}, return_when=asyncio.FIRST_COMPLETED)
        waits.cancel()

    async def step(self, under_way: "asyncio.Task[Compacted]") -> None:
        self._waits.clear()
        self._go.set()
        await self.settle(under_way)


def _next(steps: Iterator[Report]) -> Report | None:
    try:
        return next(steps, None)
    except (OSError, BadFrame) as error:
        return failure(error)


class Sent(NamedTuple):
    key: bytes
    value: bytes | None
    transaction: tuple[int, int] | None


class Reader:
    """Follows a partition as a client does, from the beginning on."""

    def __init__(self) -> None:
        self.position = 0
        self.seen: list[tuple[int, bytes | None, bytes | None]] = []
        self._held: tuple[FrameSlice, AbortedFrames] | None = None

    async def find(self, partition: Partition, max_bytes: int) -> None:
        if self._held is not None:
            return
        try:
            piece = await partition.log.read(
                self.position, max_bytes=max_bytes, end_offset=partition.committed.last_stable
            )
        except OffsetOutOfRange:
            self.position = partition.log.start_offset
            return
        if piece is None:
            self.position = max(self.position, partition.committed.last_stable)
            return
        found = partition.committed.aborted_in(self.position, piece.length)
        self._held = piece, AbortedFrames([(each.producer_id, each.first_offset) for each in found])

    async def look(self) -> None:
        if self._held is None:
            return
        (piece, aborted), self._held = self._held, None
        data = bytes(await piece.read())
        piece.release()
        for place, header in split_frames(data):
            if not aborted.hides(header):
                frame = open_frame(data, place)
                rows = zip(frame.offsets(), frame.keys(), frame.values(), strict=True)
                self.seen += [row for row in rows if row[0] >= self.position]
            self.position = header.next_offset


class World:
    def __init__(self, root: Path) -> None:
        self._root = root
        self.compactor = SteppingCompactor()
        self.sent: dict[int, Sent] = {}
        self.epochs = {1: 0, 2: 0}
        self.open: dict[int, int] = {}
        """By producer, the sequence that its transaction goes on with."""
        self.aborted: set[tuple[int, int]] = set()
        self.readers = [Reader() for _ in range(3)]
        self.under_way: asyncio.Task[Compacted] | None = None
        self.now_ms = 10_000

    async def start(self) -> None:
        compactor = self.compactor = SteppingCompactor()
        system = LocalSystem(new_compactor=lambda files, threads: compactor)
        self._storage = LocalStorage(self._root, LocalSettings(min_free_bytes=0), system)
        await self._storage.open()
        log = await self._storage.open_log("topics/1/0", log_options(CONFIG))
        epoch = await self._storage.next_start_epoch()
        self.partition = Partition(
            "t-0", log, PartitionSettings(CONFIG, Limits()), leader_epoch=epoch, clock=SystemClock()
        )
        await self.partition.recover()

    async def stop(self) -> None:
        for reader in self.readers:
            await reader.look()
        await self.partition.close()
        if self.under_way is not None:
            await asyncio.wait([self.under_way])
            self.end_pass()
        await self._storage.close()

    async def send(self, rows: list[Row], producer: int) -> None:
        identity = {}
        if producer >= 0:
            sequence = self.open.get(producer, 0)
            self.open[producer] = sequence + len(rows)
            identity = {"producer_epoch": self.epochs[producer], "base_sequence": sequence, "transactional": True}
        frame = build_frame(
            [value for _, value in rows],
            keys=[key for key, _ in rows],
            timestamp_ms=1,
            producer_id=producer,
            **identity,
        )
        base = (await self.partition.append(frame, check_frame(frame, Limits()))).base_offset
        transaction = None if producer < 0 else (producer, self.epochs[producer])
        for number, (key, value) in enumerate(rows):
            self.sent[base + number] = Sent(key, value, transaction)

    async def end(self, producer: int, commit: bool) -> None:
        if self.open.pop(producer, None) is None:
            return
        if not commit:
            self.aborted.add((producer, self.epochs[producer]))
        await self.partition.append_marker(producer, self.epochs[producer], commit=commit)
        self.epochs[producer] += 1

    async def go_on(self) -> None:
        if self.under_way is None:
            self.now_ms += 1
            self.under_way = asyncio.create_task(compact(self.partition, CONFIG, self.now_ms, roll=True))
            await self.compactor.settle(self.under_way)
        else:
            await self.compactor.step(self.under_way)
        self.end_pass()

    def end_pass(self) -> None:
        if self.under_way is not None and self.under_way.done():
            error = self.under_way.exception()
            assert error is None or isinstance(error, Closed), error  # by a restart
            self.under_way = None

    async def retain(self, share: float) -> None:
        log = self.partition.log
        await self.partition.drop_front(log.start_offset + int(share * (log.end_offset - log.start_offset)))

    def check(self, reader: Reader) -> None:
        offsets = [offset for offset, _, _ in reader.seen]
        assert offsets == sorted(set(offsets))
        for offset, key, value in reader.seen:
            sent = self.sent[offset]
            assert (key, value) == (sent.key, sent.value)
            assert sent.transaction not in self.aborted
            assert sent.transaction is None or self.epochs[sent.transaction[0]] > sent.transaction[1]

    def check_whole(self, reader: Reader) -> None:
        """It has read to the end: what it did not see is retained away, aborted, or was sent again later."""
        self.check(reader)
        counting = {offset: sent for offset, sent in self.sent.items() if sent.transaction not in self.aborted}
        last = {sent.key: offset for offset, sent in counting.items()}
        seen = {offset for offset, _, _ in reader.seen}
        for offset, sent in counting.items():
            assert offset in seen or offset < self.partition.log.start_offset or offset < last[sent.key]


async def run(steps: list[object], root: Path) -> None:
    world = World(root)
    await world.start()
    for step in steps:
        match step:
            case Send(rows, producer):
                await world.send(rows, producer)
            case End(producer, commit):
                await world.end(producer, commit)
            case Roll():
                await world.partition.log.roll()
            case Retain(share):
                await world.retain(share)
            case Pass():
                await world.go_on()
            case Read(reader, max_bytes, holds):
                await world.readers[reader].look()
                await world.readers[reader].find(world.partition, max_bytes)
                if not holds:
                    await world.readers[reader].look()
                world.check(world.readers[reader])
            case Restart():
                await world.stop()
                await world.start()
    await finish(world)


async def finish(world: World) -> None:
    for producer in list(world.open):
        await world.end(producer, commit=True)
    while world.under_way is not None:
        await world.go_on()
    for _ in range(2):
        await world.go_on()
        while world.under_way is not None:
            await world.go_on()
        for reader in (*world.readers, Reader()):
            await reader.look()
            while reader.position < world.partition.committed.last_stable:
                await reader.find(world.partition, 100_000)
                await reader.look()
            world.check_whole(reader)
    fresh, log = Reader(), world.partition.log
    while fresh.position < world.partition.committed.last_stable:
        await fresh.find(world.partition, 100_000)
        await fresh.look()
    keys = [key for _, key, _ in fresh.seen]
    assert len(keys) == len(set(keys)), "all of it is closed and was compacted"
    assert sum(await log.count_by_priority(log.start_offset)) == len(fresh.seen)
    await world.stop()


A, B = [(b"a", b"1"), (b"b", b"1")], [(b"b", b"2"), (b"c", None)]
WHOLE = [Pass()] * 6


@example([Send(A, 1), Read(0, 1, True), End(1, False), Roll(), Send(A), *WHOLE, Read(0, 1, False)])
@example([Send(A), Send(B, 1), Roll(), Pass(), Pass(), End(1, True), Send(A), Pass(), Restart(), Pass(), Pass()])
@example([Send(A), Roll(), Send(B), Roll(), Pass(), Retain(1.0), Pass(), Pass(), Send(A)])
@example([Send(A), Roll(), Send(A), Pass(), Pass(), Retain(1.0), Pass()])
@example([Send(A), Send(A, 1), *WHOLE, End(1, False)])
@example([Send(A), Send(A, 1), End(1, False), *WHOLE])
@example([Send(A, 1), End(1, False), Send(B, 1), End(1, True), *[Pass()] * 3, Restart()])
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(STEPS)
def test_readers_beside_compaction(steps: list[object]) -> None:
    with TemporaryDirectory() as root:
        asyncio.run(run(steps, Path(root)))
