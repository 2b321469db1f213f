"""Maintenance modes: pushes are buffered, pops get nothing."""

from typing import TYPE_CHECKING, Annotated, Any

import msgspec
from msgspec import Meta

from quiver.gateways.http.field_notes import needed
from quiver.gateways.http.operation import Routes
from quiver.gateways.http.request import Request
from quiver.gateways.http.response import Response
from quiver.gateways.queen.maintenance.buffer import PushBuffer
from quiver.gateways.queen.maintenance.modes import Modes
from quiver.gateways.queen.routes.operations import queen_operation
from quiver.model.errors import InvalidRequest

if TYPE_CHECKING:
    from quiver.routing.facade import Facade


class ModeRequest(msgspec.Struct, kw_only=True):
    enabled: Annotated[bool | None, needed()] = None

    def wanted(self) -> bool:
        if self.enabled is None:
            raise InvalidRequest(problem='the body needs "enabled": true or false')
        return self.enabled


class ModesResponse(msgspec.Struct, kw_only=True, rename="camel"):
    maintenance_mode: Annotated[bool, Meta(description="Pushes are buffered.")]
    pop_maintenance_mode: Annotated[bool, Meta(description="Pops get nothing.")]
    buffered_messages: int
    buffer_healthy: bool
    buffer_stats: dict[str, Any]


class MaintenanceRoutes:
    def __init__(self, broker: "Facade", modes: Modes, buffer: PushBuffer) -> None:
        self._broker = broker
        self._modes = modes
        self._buffer = buffer

    async def show(self, request: Request) -> Response:
        await self._modes.look()
        return Response(await self._shown())

    async def set_push(self, request: Request) -> Response:
        """What is buffered is moved to its queues when the mode ends."""
        is_on = (await request.body(ModeRequest)).wanted()
        await self._modes.look()
        if is_on:
            await self._modes.set_push("on")
        elif self._modes.push != "off":
            await self._modes.set_push("draining")
            self._buffer.drain()
        return Response(await self._shown())

    async def set_pop(self, request: Request) -> Response:
        await self._modes.set_pop(is_stopped=(await request.body(ModeRequest)).wanted())
        await self._modes.look()
        return Response(await self._shown())

    async def _shown(self) -> ModesResponse:
        count = await self._buffer.count()
        return ModesResponse(
            maintenance_mode=self._modes.push == "on",
            pop_maintenance_mode=self._modes.is_pop_stopped,
            buffered_messages=count,
            buffer_healthy=not (await self._broker.node.health()).problems,
            buffer_stats={"pending": count, "isDraining": self._modes.push == "draining"},
        )

    async def buffers(self, request: Request) -> Response:
        return await self.show(request)


def maintenance_routes(broker: "Facade", modes: Modes, buffer: PushBuffer) -> Routes:
    routes, root = MaintenanceRoutes(broker, modes, buffer), "/api/v1/system/maintenance"
    more: dict[str, Any] = {"body": ModeRequest, "example": {"enabled": True}}
    return {
        root: {
            "GET": queen_operation(routes.show, "Which modes are on", ModesResponse),
            "POST": queen_operation(routes.set_push, "Buffer pushes, or end that", ModesResponse, **more),
        },
        f"{root}/pop": {
            "GET": queen_operation(routes.show, "Which modes are on", ModesResponse),
            "POST": queen_operation(routes.set_pop, "Stop pops, or let them go on", ModesResponse, **more),
        },
        "/api/v1/status/buffers": {"GET": queen_operation(routes.buffers, "What is buffered", ModesResponse)},
    }
