"""A partition with delays on any storage, under a clock that the test moves."""

import asyncio
from collections.abc import Sequence
from typing import Any

from quiver.delays.due_clock import DueClock
from quiver.delays.partition.partition_delays import DelayContext, PartitionDelays, schedule_settings
from quiver.delays.partition.read_ahead import MemoryShare
from quiver.model.limits import Limits
from quiver.model.message import NewMessage
from quiver.model.names import TopicPartition
from quiver.model.topic import TopicConfig
from quiver.partition.partition import Partition
from quiver.partition.settings import PartitionSettings, log_options
from quiver.records.build import build_frame
from quiver.records.check import check_frame
from quiver.records.header import unpack_header
from quiver.records.read import OpenFrame, open_frame, split_frames
from quiver.storage.port import Storage

START_MS = 1_700_000_000_000


class HandClock:
    def __init__(self) -> None:
        self.now = START_MS

    def now_ms(self) -> int:
        return self.now

    def monotonic(self) -> float:
        return self.now / 1000


class Bench:
    """Opened again, it goes on with the same storage and clock."""

    def __init__(self, storage: Storage, clock: HandClock, config: TopicConfig) -> None:
        self.storage, self.clock, self.config = storage, clock, config
        self.target: Partition
        self.delays: PartitionDelays

    @classmethod
    async def open(
        cls, storage: Storage, clock: HandClock | None = None, config: TopicConfig | None = None
    ) -> "Bench":
        bench = cls(storage, clock or HandClock(), config or TopicConfig())
        epoch = await storage.next_start_epoch()
        log = await storage.open_log("topics/1/0", log_options(bench.config))
        bench.target = Partition(
            "t-0", log, PartitionSettings(bench.config, Limits()), leader_epoch=epoch, clock=bench.clock
        )
        await bench.target.recover()
        bench.delays = await PartitionDelays.open(
            storage,
            TopicPartition(1, 0),
            bench.target,
            schedule_settings(bench.config, Limits()),
            DelayContext(bench.clock, DueClock(bench.clock), MemoryShare()),
        )
        return bench

    async def close(self) -> None:
        await self.delays.close()
        await self.target.close()

    async def reopen(self) -> "Bench":
        await self.close()
        return await Bench.open(self.storage, self.clock, self.config)

    async def schedule(self, value: bytes, delay_ms: int, **fields: Any) -> int:
        message = NewMessage(value=value, deliver_at_ms=self.clock.now + delay_ms, **fields)
        return (await self.delays.intake.message(message)).base_offset

    async def schedule_frame(self, values: Sequence[bytes], delays_ms: Sequence[int | None], **fields: Any) -> int:
        times = [None if delay_ms is None else self.clock.now + delay_ms for delay_ms in delays_ms]
        frame = build_frame(values, timestamp_ms=self.clock.now, deliver_at_ms=times, **fields)
        check_frame(frame, Limits())
        return (await self.delays.intake.frame(frame, unpack_header(frame))).base_offset

    async def pass_time(self, step_ms: int = 0) -> None:
        """Moves the clock, delivers what is due and waits until it has arrived."""
        self.clock.now += step_ms
        await self.delays.deliver_due()
        await self.arrived()

    async def arrived(self) -> None:
        """Waits until what is on its way has arrived, or cannot."""
        outbox = self.delays.state.outbox
        while outbox.open and self.target.log.failure is None:
            await self.delays.relay.finished(list(outbox.open.values()), within_seconds=0.1)
        await asyncio.sleep(0)

    async def frames(self) -> list[OpenFrame]:
        """What the topic has."""
        found: list[OpenFrame] = []
        offset, log = self.target.log.start_offset, self.target.log
        while offset < log.end_offset and (piece := await log.read(offset, max_bytes=1 << 24)) is not None:
            data = await piece.read()
            piece.release()
            for position, header in split_frames(data):
                found.append(open_frame(data, position))
                offset = header.next_offset
        return found

    async def values(self) -> list[bytes | None]:
        return [value for frame in await self.frames() for value in frame.values()]
