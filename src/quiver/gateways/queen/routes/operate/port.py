"""The routes of a port for Queen's interface alone: its own, and those that Queen has for its operators."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Literal

import msgspec

from quiver.gateways.http.operation import Operation, Routes
from quiver.gateways.http.request import Request
from quiver.gateways.http.response import Response
from quiver.gateways.http.routes.metrics.metrics import metrics_routes
from quiver.gateways.http.routes.node.health import Readiness
from quiver.gateways.queen.routes import queen_routes

if TYPE_CHECKING:
    from quiver.routing.facade import Facade


class QueenHealth(msgspec.Struct, kw_only=True):
    status: Literal["healthy", "unhealthy"]
    database: Literal["connected", "disconnected"]
    server: str
    worker_id: int
    version: str


class HealthRoute:
    def __init__(self, broker: "Facade", version: str) -> None:
        self._broker = broker
        self._version = version

    async def health(self, request: Request) -> Response:
        is_well = not (await self._broker.node.health()).problems
        health = QueenHealth(
            status="healthy" if is_well else "unhealthy",
            database="connected" if is_well else "disconnected",
            server="quiver",
            worker_id=0,
            version=self._version,
        )
        return Response(health, 200 if is_well else 503)


def port_routes(version: str) -> "Callable[[Facade, Readiness], Routes]":
    def routes(broker: "Facade", readiness: Readiness) -> Routes:
        health = Operation(
            handler=HealthRoute(broker, version).health,
            summary="Whether everything can be read and written",
            tag="Queen",
            response=QueenHealth,
            other_status=503,
        )
        metrics = metrics_routes(broker)
        return {
            **queen_routes(broker),
            **metrics,
            "/metrics/prometheus": metrics["/metrics"],
            "/health": {"GET": health},
        }

    return routes
