"""Numbers of the process and its gateways."""

import asyncio
import platform
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from quiver.metrics.collector import Collection
from quiver.metrics.series import (
    BUILD_INFO,
    CONNECTIONS,
    DISK_FREE,
    LOOP_LAG,
    MEMORY_HELD,
    PROCESS_CPU,
    PROCESS_FILES,
    PROCESS_MAX_FILES,
    PROCESS_RESIDENT,
    PROCESS_START,
    PROCESS_VIRTUAL,
    PUBLISH_SECONDS,
    REQUEST_SECONDS,
    REQUESTS,
)
from quiver.telemetry.gateway_counts import GatewayCounts
from quiver.telemetry.loop_lag import LoopLag
from quiver.telemetry.machine import Disk, Machine, Process


class Build(NamedTuple):
    version: str
    commit: str
    started_ms: int


class GatewayNumbers:
    def __init__(self, gateways: Sequence[GatewayCounts]) -> None:
        self._gateways = gateways

    async def collect(self, collection: Collection) -> None:
        values = collection.values
        for gateway in self._gateways:
            values.set(CONNECTIONS, gateway.connections, gateway.name)
            values.observe(PUBLISH_SECONDS, gateway.publish.seconds, gateway.name)
            for operation, counts in gateway.operations.items():
                await collection.pace.turn()
                total = counts.seconds.count
                if not total:
                    continue
                values.observe(REQUEST_SECONDS, counts.seconds, gateway.name, operation)
                failed = sum(counts.failures.values())
                values.set(REQUESTS, total - failed, gateway.name, operation, "ok")
                for code, count in counts.failures.items():
                    values.set(REQUESTS, count, gateway.name, operation, code)


class ProcessNumbers:
    def __init__(
        self, build: Build, machine: Machine, lag: LoopLag, held_bytes: Mapping[str, Callable[[], int]]
    ) -> None:
        self._build = build
        self._machine = machine
        self._lag = lag
        self._held_bytes = held_bytes

    async def collect(self, collection: Collection) -> None:
        values, build = collection.values, self._build
        values.set(BUILD_INFO, 1, build.version, build.commit, platform.python_version())
        values.set(PROCESS_START, build.started_ms / 1000)
        values.observe(LOOP_LAG, self._lag.seconds)
        for what, held_bytes in self._held_bytes.items():
            values.set(MEMORY_HELD, held_bytes(), what)
        try:
            process, disk = await asyncio.to_thread(self._look)
        except OSError:  # a machine without /proc
            return
        values.set(PROCESS_CPU, process.cpu_seconds)
        values.set(PROCESS_RESIDENT, process.resident_bytes)
        values.set(PROCESS_VIRTUAL, process.virtual_bytes)
        values.set(PROCESS_FILES, process.open_files)
        values.set(PROCESS_MAX_FILES, process.max_open_files)
        if disk is not None:
            values.set(DISK_FREE, disk.free_bytes)

    def _look(self) -> tuple[Process, Disk | None]:
        return self._machine.process(), self._machine.disk()
