"""Every number about the broker, for Prometheus and everybody who reads its format."""

import asyncio
from typing import TYPE_CHECKING

from quiver.gateways.http.media import weighted
from quiver.gateways.http.operation import Operation, Routes
from quiver.gateways.http.request import Request
from quiver.gateways.http.response import Response
from quiver.telemetry.exposition import OPEN_METRICS, PROMETHEUS

if TYPE_CHECKING:
    from quiver.routing.facade import Facade


class MetricsRoutes:
    def __init__(self, broker: "Facade") -> None:
        self._broker = broker
        self._scraping = asyncio.Lock()

    async def metrics(self, request: Request) -> Response:
        open_metrics = wants_open_metrics(request.headers.get(b"accept"))
        async with self._scraping:
            collected = await self._broker.metrics.collect()
        text = await self._broker.metrics.text_of(collected, open_metrics=open_metrics)
        return Response(text, content_type=OPEN_METRICS if open_metrics else PROMETHEUS)


def wants_open_metrics(accept: bytes | None) -> bool:
    """Whether a client prefers OpenMetrics to the older text format, which everybody gets who does not say."""
    if not accept:
        return False
    weights = dict(weighted(accept))
    return weights.get(b"application/openmetrics-text", 0.0) > weights.get(b"text/plain", 0.0)


def metrics_routes(broker: "Facade") -> Routes:
    return {
        "/metrics": {
            "GET": Operation(
                handler=MetricsRoutes(broker).metrics,
                summary="Metrics as Prometheus text, or as OpenMetrics by Accept",
                tag="Node",
                response=None,
            )
        }
    }
