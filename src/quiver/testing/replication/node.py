"""A simulated node: logs on a simulated disk, replicated to the others, served to clients while it leads."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from quiver.model.errors import CoordinationUnavailable, NotLeader, QuiverError
from quiver.records.header import (
    HEADER_BYTES,
    FrameHeader,
    StampedFrame,
    body_crc,
    pack_header,
    read_stamped_header,
    stamp,
)
from quiver.replication.leading import ReplicationSettings
from quiver.replication.log import ReplicatedLog
from quiver.replication.messages import Message, Position
from quiver.replication.storage import Member, ReplicatedStorage
from quiver.storage.local.settings import LocalSettings, LocalSystem
from quiver.storage.local.storage import LocalStorage
from quiver.storage.port import Log, LogOptions
from quiver.system.randomness import SeededRandomness
from quiver.testing.replication.coordination import CoordinationClient, CoordinationModel
from quiver.testing.replication.network import CallNetwork
from quiver.testing.simulation.system.clock import SimulatedClock
from quiver.testing.simulation.system.disk import Disk
from quiver.testing.simulation.system.files import SimulatedFiles
from quiver.testing.simulation.system.loop import SimulatedLoop
from quiver.testing.simulation.system.threads import SimulatedThreads
from quiver.testing.simulation.world import World

_ROOT = Path("/data")
_RENEW_SECONDS = 0.5
OPTIONS = LogOptions(segment_bytes=8 * 1024)
SETTINGS = ReplicationSettings(call_seconds=0.5, idle_seconds=0.2, lag_seconds=1.0)


class Publish(msgspec.Struct, frozen=True):
    log_id: str
    value: int


class NodeLinks:
    def __init__(self, network: CallNetwork, node: int) -> None:
        self._network, self._node = network, node

    async def call(self, node: int, message: Message) -> Position:
        position: Position = await self._network.call(self._node, node, message)
        return position


class SimulatedNode:
    def __init__(
        self,
        number: int,
        world: World,
        network: CallNetwork,
        model: CoordinationModel,
        on_error: Callable[[str], None],
    ) -> None:
        self.number = number
        self._world, self._network, self._model, self._on_error = world, network, model, on_error
        self.clock = SimulatedClock(world)
        self.disk = Disk(world.seeded(f"disk/{number}"))
        self._randomness = SeededRandomness(world.seeded(f"randomness/{number}"))
        self._starts = 0
        self.loop: SimulatedLoop | None = None
        self._files: SimulatedFiles | None = None
        self.storage: ReplicatedStorage | None = None
        self.local: LocalStorage | None = None
        self.led: dict[str, ReplicatedLog] = {}
        """Logs that it serves."""
        self._opening: dict[str, asyncio.Task[None]] = {}
        self._writing: dict[str, asyncio.Lock] = {}

    @property
    def is_running(self) -> bool:
        return self.loop is not None

    def start(self) -> None:
        self._starts += 1
        self._world.note("start", self.number)
        loop = self.loop = SimulatedLoop(self._world, f"node-{self.number}/{self._starts}", self._on_error)
        self._files = SimulatedFiles(self.disk, self.clock, self.kill)
        self.led, self._opening, self._writing = {}, {}, {}
        loop.call_soon(lambda: loop.create_task(self._run(loop)))

    def kill(self) -> None:
        if self.loop is not None and self._files is not None:
            self._world.note("kill", self.number)
            self._files.kill()
            self.loop.kill()
            self.loop = self.storage = self.local = None
            self._network.processes.pop(self.number, None)

    def cut_power(self) -> None:
        self.kill()
        self.disk.cut_power()

    async def _run(self, loop: SimulatedLoop) -> None:
        assert self._files is not None
        system = LocalSystem(
            files=self._files,
            clock=self.clock,
            randomness=self._randomness,
            new_threads=lambda count, name: SimulatedThreads(self.disk, count),
        )
        local = self.local = LocalStorage(_ROOT, LocalSettings(max_open_files=100, min_free_bytes=0), system)
        await local.open()
        client = CoordinationClient(self._model, self.number)
        incarnation = await local.next_start_epoch()
        storage = ReplicatedStorage(
            Member(self.number, incarnation), local, client, NodeLinks(self._network, self.number), SETTINGS
        )
        await storage.open()
        self.storage = storage
        self._network.processes[self.number] = loop, self._handle
        loop.create_task(self._serve(storage))
        while True:
            try:
                await client.renew(incarnation)
            except CoordinationUnavailable:
                continue
            await asyncio.sleep(_RENEW_SECONDS)

    async def _serve(self, storage: ReplicatedStorage) -> None:
        """Opens what it leads. An opening that waits for followers does not hold up others."""
        while True:
            for log_id in storage.units:
                log = self.led.get(log_id)
                if log is not None and log.is_over:
                    del self.led[log_id]
                if storage.leads(log_id) and log_id not in self.led and log_id not in self._opening:
                    self._opening[log_id] = asyncio.get_running_loop().create_task(self._lead(storage, log_id))
            await asyncio.sleep(0.05)

    async def _lead(self, storage: ReplicatedStorage, log_id: str) -> None:
        try:
            self.led[log_id] = await storage.open_log(log_id, OPTIONS)
        except QuiverError as error:
            self._world.note("not opened", self.number, log_id, type(error).__name__)
        finally:
            self._opening.pop(log_id, None)

    async def _handle(self, message: Any) -> Any:
        if isinstance(message, Publish):
            return await self._publish(message)
        assert self.storage is not None
        return await self.storage.handle(message)

    async def _publish(self, message: Publish) -> int:
        log = self.led.get(message.log_id)
        if log is None:
            raise NotLeader(what=message.log_id)
        async with self._writing.setdefault(message.log_id, asyncio.Lock()):
            offset = log.end_offset
            time_ms = max(self.clock.now_ms(), log.last_append_time_ms)
            await log.append([new_frame(offset, log.leader_epoch, time_ms, message.value)])
            return offset


def new_frame(offset: int, epoch: int, time_ms: int, value: int) -> StampedFrame:
    body = b"%-104d" % value
    header = FrameHeader(2, 0, 0, 0, 0, 0, len(body), len(body), 1, 0, -1, -1, -1, time_ms, time_ms, 0, 0, 0)
    header = header._replace(body_crc=body_crc(pack_header(header), body))
    given = bytes(pack_header(header)) + body
    return stamp(given, header, base_offset=offset, leader_epoch=epoch, append_time_ms=time_ms)


async def stored_values(log: Log, end_offset: int) -> list[tuple[int, bytes]]:
    """Offset and frame of everything below an end."""
    found: list[tuple[int, bytes]] = []
    offset = log.start_offset
    while offset < end_offset:
        piece = await log.read(offset, max_bytes=64 * 1024, end_offset=end_offset)
        if piece is None:
            break
        data, position = bytes(await piece.read()), 0
        piece.release()
        while position + HEADER_BYTES <= len(data):
            header = read_stamped_header(data, position)
            if position + header.frame_bytes > len(data):
                break
            found.append((header.base_offset, data[position : position + header.frame_bytes]))
            position, offset = position + header.frame_bytes, header.next_offset
    return found


def value_of(frame: bytes) -> int:
    return int(frame[HEADER_BYTES:])
