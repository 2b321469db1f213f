"""Health: alive, ready, and what is wrong."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from quiver.gateways.http.operation import Operation, Routes
from quiver.gateways.http.request import Request
from quiver.gateways.http.response import Response
from quiver.model.limits import MIB
from quiver.model.times import format_time
from quiver.system.files import Files
from quiver.telemetry.loop_lag import LoopLag
from quiver.telemetry.machine import Machine

if TYPE_CHECKING:
    from quiver.routing.facade import Facade

_MAX_LAG_MS = 1000.0
_MAX_MEMORY_SHARE = 0.95
_SHOWN_PROBLEMS = 3

Verdict = tuple[bool, str]
Status = Literal["pass", "fail"]


class CheckResponse(msgspec.Struct):
    status: Status
    message: str
    latency: Annotated[float, Meta(description="Seconds the check took.")]


class HealthResponse(msgspec.Struct, kw_only=True):
    status: Literal["ok", "pass", "fail"]
    timestamp: str
    uptime: Annotated[float, Meta(description="Seconds.")]


class ReadinessResponse(HealthResponse, kw_only=True):
    checks: dict[str, CheckResponse]
    problems: Annotated[
        dict[str, str] | UnsetType, Meta(description="With ?verbose=true: everything that takes no writes, and why.")
    ] = UNSET
    warnings: Annotated[
        dict[str, str] | UnsetType,
        Meta(description="With ?verbose=true: what was found damaged, though everything takes reads and writes."),
    ] = UNSET


class ReadinessQuery(msgspec.Struct):
    verbose: bool = False


class Readiness:
    """The checks of /readyz."""

    def __init__(
        self, broker: "Facade", *, lag: LoopLag, files: Files, data_dir: Path | None, min_free_bytes: int
    ) -> None:
        self._broker = broker
        self.lag = lag
        self.machine = Machine(files, data_dir)
        self.data_dir = data_dir
        self._min_free_bytes = min_free_bytes
        self.stopping = False

    async def checks(self) -> dict[str, CheckResponse]:
        checks: dict[str, Callable[[], Awaitable[Verdict]]] = {
            "disk": self._disk,
            "storage": self._storage,
            "event_loop_lag": self._event_loop_lag,
            "memory": self._memory,
        }
        return {name: await self._timed(check) for name, check in checks.items()}

    async def _timed(self, check: Callable[[], Awaitable[Verdict]]) -> CheckResponse:
        started = self._broker.clock.monotonic()
        try:
            good, message = await check()
        except OSError as error:
            good, message = False, f"the check itself failed: {error}"
        latency = round(self._broker.clock.monotonic() - started, 6)
        return CheckResponse("pass" if good else "fail", message, latency)

    async def _disk(self) -> Verdict:
        disk = await asyncio.to_thread(self.machine.disk)
        if disk is None:
            return True, "not watched here; the storage check covers it"
        free = disk.free_bytes
        return free >= self._min_free_bytes, f"{free // MIB} MiB free, {self._min_free_bytes // MIB} needed"

    async def _storage(self) -> Verdict:
        if self.stopping:
            return False, "the broker is shutting down"
        problems, warnings = await self._broker.node.health()
        if not problems:
            return True, warnings.get("buffer", "all partitions take writes")
        shown = [f"{name}: {why}" for name, why in list(problems.items())[:_SHOWN_PROBLEMS]]
        more = len(problems) - len(shown)
        return False, "; ".join(shown) + (f"; and {more} more" if more else "")

    async def _event_loop_lag(self) -> Verdict:
        worst = self.lag.worst_ms
        return worst <= _MAX_LAG_MS, f"at most {worst:.1f} ms in the last 10 s"

    async def _memory(self) -> Verdict:
        used, limit = await asyncio.to_thread(self.machine.memory)
        return used <= limit * _MAX_MEMORY_SHARE, f"{used // MIB} of {limit // MIB} MiB"


class HealthRoutes:
    def __init__(self, broker: "Facade", readiness: Readiness) -> None:
        self._broker = broker
        self._readiness = readiness
        self._started = broker.clock.monotonic()

    async def health(self, request: Request) -> Response:
        return self._alive("ok")

    async def live(self, request: Request) -> Response:
        return self._alive("pass")

    def _alive(self, status: Literal["ok", "pass"]) -> Response:
        return Response(HealthResponse(status=status, timestamp=self._now(), uptime=self._uptime()))

    async def ready(self, request: Request) -> Response:
        query = request.query(ReadinessQuery)
        checks = await self._readiness.checks()
        good = all(check.status == "pass" for check in checks.values())
        response = ReadinessResponse(
            status="pass" if good else "fail", timestamp=self._now(), uptime=self._uptime(), checks=checks
        )
        if query.verbose:
            response.problems, response.warnings = await self._broker.node.health()
        return Response(response, 200 if good else 503)

    def _now(self) -> str:
        return format_time(self._broker.clock.now_ms())

    def _uptime(self) -> float:
        return round(self._broker.clock.monotonic() - self._started, 3)


def health_routes(broker: "Facade", readiness: Readiness) -> Routes:
    routes = HealthRoutes(broker, readiness)
    alive = Operation(
        handler=routes.live, summary="Whether the process is alive", tag="Health", response=HealthResponse
    )
    return {
        "/health": {
            "GET": Operation(
                handler=routes.health, summary="Whether the process responds", tag="Health", response=HealthResponse
            )
        },
        "/healthz": {"GET": alive},
        "/livez": {"GET": alive},
        "/readyz": {
            "GET": Operation(
                handler=routes.ready,
                summary="Whether the broker takes reads and writes; 503 with the reasons when it does not",
                tag="Health",
                query=ReadinessQuery,
                response=ReadinessResponse,
            )
        },
    }
