"""GET /api/v1/dlq: the dead letters of one queue, or of all."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
from msgspec import Meta

from quiver.dead_letters.search import Search
from quiver.gateways.http.media import Media
from quiver.gateways.http.operation import Operation, Routes
from quiver.gateways.http.request import Request
from quiver.gateways.http.response import Response
from quiver.gateways.queen.identifiers import partition_id
from quiver.gateways.queen.messages import own_id, payload, shown_time, transaction_id
from quiver.gateways.queen.queues import QUEUE_MODE, QueenQueues, partition_name
from quiver.model.dead_letter import DeadLetter, DeadLetterFilter
from quiver.model.errors import InvalidName, InvalidRequest
from quiver.model.limits import LISTED_AT_ONCE
from quiver.model.topic import Topic

if TYPE_CHECKING:
    from quiver.routing.facade import Facade


class DlqQuery(msgspec.Struct, kw_only=True, rename="camel"):
    queue: str | None = None
    consumer_group: str | None = None
    limit: Annotated[int, Meta(ge=1, le=LISTED_AT_ONCE)] = 100
    offset: Annotated[int, Meta(ge=0)] = 0


class DlqMessage(msgspec.Struct, kw_only=True, rename="camel"):
    id: str
    transaction_id: str
    partition_id: str
    queue: str
    partition: str
    consumer_group: str | None
    error_message: str | None
    retry_count: int
    data: Any
    created_at: str
    failed_at: str


class Pagination(msgspec.Struct, kw_only=True, rename="camel"):
    limit: int
    offset: int
    total: Annotated[int, Meta(description="Of the queue or queues, whatever the group.")]
    has_more: bool


class DlqResponse(msgspec.Struct, kw_only=True):
    """The newest first."""

    messages: list[DlqMessage]
    total: int
    pagination: Pagination


class DlqRoute:
    def __init__(self, broker: "Facade", queues: QueenQueues) -> None:
        self._broker = broker
        self._queues = queues

    async def list(self, request: Request) -> Response:
        query = request.query(DlqQuery)
        end = query.offset + query.limit
        if query.queue is None and end > LISTED_AT_ONCE:
            raise InvalidRequest(problem=f"without queue, offset and limit go up to {LISTED_AT_ONCE} together")
        found: list[tuple[Topic, DeadLetter]] = []
        total = 0
        for topic in self._topics(query):
            skip = query.offset if query.queue is not None else 0
            search = Search(DeadLetterFilter(group=query.consumer_group or None), newest_first=True)
            page = await self._broker.dead_letters.page(topic.name, search, limit=end - skip + 1, skip=skip)
            found += ((topic, each) for each in page.dead_letters)
            total += page.total
        if query.queue is None:
            found.sort(key=lambda pair: pair[1].cursor, reverse=True)
            found = found[query.offset :]
        media = request.response_media
        return Response(
            DlqResponse(
                messages=[_to_response(topic, each, media) for topic, each in found[: query.limit]],
                total=total,
                pagination=Pagination(
                    limit=query.limit, offset=query.offset, total=total, has_more=len(found) > query.limit
                ),
            )
        )

    def _topics(self, query: DlqQuery) -> "Sequence[Topic]":
        if query.queue is None:
            return self._queues.list()
        topic = self._queues.find(query.queue)
        return [] if topic is None else [topic]


def _to_response(topic: Topic, dead: DeadLetter, media: Media) -> DlqMessage:
    original = dead.original
    partition, offset = (dead.partition, dead.offset) if original is None else (original.partition, original.offset)
    created_ms = None if original is None else original.appended_at_ms
    return DlqMessage(
        id=own_id(dead.headers, topic.id, partition, offset),
        transaction_id=transaction_id(dead.headers, topic.id, partition, offset),
        partition_id=partition_id(topic.id, dead.key),
        queue=topic.name,
        partition=partition_name(dead.key),
        consumer_group=None if dead.group == QUEUE_MODE else dead.group or None,
        error_message=dead.last_error or dead.reason or None,
        retry_count=max(0, dead.attempts - 1),
        data=payload(dead.value, media),
        created_at=shown_time(dead.timestamp_ms if created_ms is None else created_ms),
        failed_at=shown_time(dead.died_at_ms),
    )


def dead_letter_routes(broker: "Facade", queues: QueenQueues) -> Routes:
    operation = Operation(
        handler=DlqRoute(broker, queues).list,
        summary="Dead letters of a queue, or of all queues",
        tag="Queen",
        query=DlqQuery,
        response=DlqResponse,
        errors=(InvalidRequest, InvalidName),
    )
    return {"/api/v1/dlq": {"GET": operation}}
