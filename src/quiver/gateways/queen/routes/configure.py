"""POST /api/v1/configure: creates a queue, or changes its options."""

from typing import Annotated

import msgspec
from msgspec import Meta

from quiver.gateways.http.field_notes import NAME, needed
from quiver.gateways.http.operation import Operation, Routes
from quiver.gateways.http.request import Request
from quiver.gateways.http.response import Response
from quiver.gateways.queen.identifiers import partition_id, queue_id
from quiver.gateways.queen.options import GivenOptions, QueueDefinition, QueueOptions
from quiver.gateways.queen.queues import QueenQueues, partition_key
from quiver.model.errors import InvalidName, InvalidRequest, InvalidSetting


class ConfigureRequest(msgspec.Struct, kw_only=True):
    queue: Annotated[str | None, needed(**NAME)] = None
    namespace: str | None = None
    task: str | None = None
    options: Annotated[GivenOptions | None, Meta(description="Those that are left out get their defaults.")] = None


class ConfigureResponse(msgspec.Struct, kw_only=True, rename="camel"):
    configured: bool
    queue_id: str
    partition_id: Annotated[str, Meta(description="Of the partition `Default`.")]
    queue: str
    namespace: str
    task: str
    options: QueueOptions


class ConfigureRoute:
    def __init__(self, queues: QueenQueues) -> None:
        self._queues = queues

    async def configure(self, request: Request) -> Response:
        wanted = await request.body(ConfigureRequest)
        if not wanted.queue:
            raise InvalidRequest(problem='the body needs "queue": the name of the queue')
        given = wanted.options or GivenOptions()
        definition = QueueDefinition(
            namespace=wanted.namespace or "",
            task=wanted.task or "",
            options=given.complete(),
            ttl_seconds=max(0, given.ttl),
            retry_delay_ms=max(0, given.retry_delay),
        )
        topic = await self._queues.configure(wanted.queue, definition)
        return Response(
            ConfigureResponse(
                configured=True,
                queue_id=queue_id(topic.id),
                partition_id=partition_id(topic.id, partition_key(None)),
                queue=topic.name,
                namespace=definition.namespace,
                task=definition.task,
                options=definition.options,
            )
        )


def configure_routes(queues: QueenQueues) -> Routes:
    operation = Operation(
        handler=ConfigureRoute(queues).configure,
        summary="Create a queue, or change its options",
        tag="Queen",
        body=ConfigureRequest,
        example={"queue": "orders", "options": {"leaseTime": 60, "retryLimit": 3}},
        response=ConfigureResponse,
        errors=(InvalidName, InvalidSetting),
    )
    return {"/api/v1/configure": {"POST": operation}}
