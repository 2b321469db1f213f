"""POST /api/v1/lease/{lease}/extend: a lease that lasts longer."""

from typing import TYPE_CHECKING, Annotated
from urllib.parse import unquote

import msgspec
from msgspec import Meta

from quiver.gateways.http.operation import Operation, Routes
from quiver.gateways.http.request import Request
from quiver.gateways.http.response import Response
from quiver.gateways.queen.acks.held_acks import LEASE_LOST
from quiver.gateways.queen.identifiers import LeasePlace, parse_lease_id
from quiver.gateways.queen.messages import shown_time
from quiver.model.errors import InvalidRequest
from quiver.model.settlement import EXTEND, SettleRequest

if TYPE_CHECKING:
    from quiver.routing.facade import Facade

_LONGEST_SECONDS = 7 * 86_400


class ExtendRequest(msgspec.Struct, kw_only=True):
    seconds: Annotated[
        Annotated[int, Meta(ge=1, le=_LONGEST_SECONDS)] | None, Meta(description="From now on; 60 by default.")
    ] = None


class ExtendResponse(msgspec.Struct, kw_only=True, rename="camel"):
    index: int
    lease_id: str
    success: bool
    error: str | None
    expires_at: Annotated[str | None, Meta(description="The later of the old end and the one that was asked for.")]
    new_expires_at: str | None


class LeaseRoute:
    def __init__(self, broker: "Facade") -> None:
        self._broker = broker

    async def extend(self, request: Request) -> Response:
        wanted = await request.body(ExtendRequest)
        text = unquote(request.params["lease"])
        lease = parse_lease_id(text)
        until_ms: int | None = None
        for place in () if lease is None else lease.places:
            end_ms = await self._extend(place, 0 if lease is None else lease.group_id, wanted.seconds or 60)
            until_ms = end_ms if until_ms is None or end_ms is None else min(until_ms, end_ms)
        shown = None if until_ms is None else shown_time(until_ms)
        return Response(
            [
                ExtendResponse(
                    index=0,
                    lease_id=text,
                    success=shown is not None,
                    error=None if shown is not None else LEASE_LOST,
                    expires_at=shown,
                    new_expires_at=shown,
                )
            ]
        )

    async def _extend(self, place: LeasePlace, group_id: int, seconds: int) -> int | None:
        """When what it holds there is available again; None if it holds nothing."""
        topic_id, partition, lease_id = place
        held = await self._broker.queue_leases.of_lease(topic_id, partition, group_id, lease_id)
        if held is None:
            return None
        if held.until_ms >= self._broker.clock.now_ms() + seconds * 1000:
            return held.until_ms
        extended = SettleRequest(topic_id, partition, group_id, lease_id, EXTEND, held.runs, seconds * 1000)
        [settlement] = await self._broker.queues.settle([extended])
        return settlement.until_ms


def lease_routes(broker: "Facade") -> Routes:
    operation = Operation(
        handler=LeaseRoute(broker).extend,
        summary="Extend a lease",
        tag="Queen",
        body=ExtendRequest,
        example={"seconds": 60},
        response=list[ExtendResponse],
        errors=(InvalidRequest,),
    )
    return {"/api/v1/lease/{lease}/extend": {"POST": operation}}
