"""POST /api/v1/ack and /api/v1/ack/batch: what became of messages that were popped."""

from collections.abc import Sequence
from typing import Annotated, Any, Protocol

import msgspec
from msgspec import Meta

from quiver.gateways.http.field_notes import needed
from quiver.gateways.http.media import JSON, Media
from quiver.gateways.http.operation import Operation, Routes
from quiver.gateways.http.request import Request
from quiver.gateways.http.response import Response
from quiver.gateways.queen.acks.acknowledger import Acknowledger
from quiver.gateways.queen.acks.held_acks import Ack, AckResult
from quiver.gateways.queen.acks.rules import Mark, outcome_of
from quiver.gateways.queen.json_rows import count_column, json_rows, text_column
from quiver.gateways.queen.queues import group_name
from quiver.model.errors import InvalidName, InvalidRequest, RequestTooLarge
from quiver.model.limits import PUBLISHED_AT_ONCE

_LONGEST_ERROR = 1_000
_BEFORE_COMMON = b'{"index":0,"transactionId":""'


class Acknowledgment(msgspec.Struct, kw_only=True, rename="camel"):
    transaction_id: str
    partition_id: str
    status: Annotated[str, Meta(description="completed (or success, acked, ok), failed, retry or dlq.")] = "completed"
    lease_id: Annotated[str | None, Meta(description="With it, the lease must still hold.")] = None
    error: Annotated[str | None, Meta(description="Kept with the dead letter.")] = None

    def ack(self, group: str) -> Ack:
        return made_ack(self.transaction_id, self.partition_id, group, self)


class Settled(Protocol):
    """What a request says of a message."""

    status: str
    lease_id: str | None
    error: str | None


def made_ack(transaction: str, partition: str, group: str, settled: Settled) -> Ack:
    outcome = outcome_of(settled.status)
    if outcome is None:
        raise InvalidRequest(problem=f"status {settled.status[:80]!r} is not completed, failed, retry or dlq")
    mark = Mark(outcome, (settled.error or "")[:_LONGEST_ERROR])
    return Ack(transaction, partition, group, settled.lease_id or None, mark)


class AckOneRequest(Acknowledgment, kw_only=True, rename="camel"):
    consumer_group: str | None = None


class AckBatchRequest(msgspec.Struct, kw_only=True, rename="camel"):
    acknowledgments: Annotated[list[Acknowledgment] | None, needed(maxItems=PUBLISHED_AT_ONCE)] = None
    consumer_group: str | None = None


class AckResponse(msgspec.Struct, rename="camel"):
    index: int
    transaction_id: str
    success: bool
    error: str | None
    queue_name: str | None
    partition_name: str | None
    lease_released: Annotated[bool, Meta(description="The lease holds nothing more of the partition.")]
    dlq: Annotated[bool, Meta(description="The message is a dead letter now.")]


class AckRoutes:
    def __init__(self, acknowledger: Acknowledger) -> None:
        self._acknowledger = acknowledger

    async def ack(self, request: Request) -> Response:
        wanted = await request.body(AckOneRequest)
        acks = [wanted.ack(group_name(wanted.consumer_group))]
        return Response(_responses(acks, await self._acknowledger.acknowledge(acks)))

    async def ack_batch(self, request: Request) -> Response:
        wanted = await request.body(AckBatchRequest)
        if wanted.acknowledgments is None:
            raise InvalidRequest(problem='the body needs "acknowledgments": a list of them')
        if len(wanted.acknowledgments) > PUBLISHED_AT_ONCE:
            count = len(wanted.acknowledgments)
            raise RequestTooLarge(f"{count} acknowledgments are over the limit of {PUBLISHED_AT_ONCE}; split them")
        group = group_name(wanted.consumer_group)
        completed = await self._completed(wanted.acknowledgments, group, request.response_media)
        if completed is not None:
            return completed
        acks = [each.ack(group) for each in wanted.acknowledgments]
        return Response(_responses(acks, await self._acknowledger.acknowledge(acks)))

    async def _completed(self, acks: Sequence[Acknowledgment], group: str, media: Media) -> Response | None:
        """Of a request that completes messages of one lease: the last of them does so for all."""
        places = {(each.partition_id, each.lease_id, each.status) for each in acks}
        if len(places) != 1 or len(acks) == 1:
            return None
        first = acks[0].ack(group)
        transactions = [each.transaction_id for each in acks]
        result = await self._acknowledger.complete(first, transactions)
        if result is None:
            return None
        common = (result.error is None, result.error, result.queue, result.partition, result.is_released, False)
        if media is JSON and b"\\" not in JSON.encode(transactions):
            return Response(_alike(transactions, AckResponse(0, "", *common)), content_type=JSON.content_type)
        return Response([AckResponse(index, name, *common) for index, name in enumerate(transactions)])


def _alike(transactions: Sequence[str], result: AckResponse) -> bytes:
    """The same result for each of some texts that JSON does not escape, as JSON."""
    after = JSON.encode(result)[len(_BEFORE_COMMON) :]
    numbers, names = count_column(len(transactions)), text_column(transactions)
    return b"[" + json_rows([b'{"index":', numbers, b',"transactionId":"', names, b'"' + after]) + b"]"


def ack_routes(acknowledger: Acknowledger) -> Routes:
    routes = AckRoutes(acknowledger)
    example = {"transactionId": "order-1", "partitionId": "1-RGVmYXVsdA", "status": "completed"}

    def operation(**more: Any) -> Operation:
        errors = (InvalidRequest, InvalidName)
        return Operation(tag="Queen", response=list[AckResponse], errors=errors, **more)

    return {
        "/api/v1/ack": {
            "POST": operation(
                handler=routes.ack,
                summary="Acknowledge a message and those before it; the acks are on disk when this returns",
                body=AckOneRequest,
                example=example,
            )
        },
        "/api/v1/ack/batch": {
            "POST": operation(
                handler=routes.ack_batch,
                summary="Acknowledge several messages",
                body=AckBatchRequest,
                example={"acknowledgments": [example]},
            )
        },
    }


def _responses(acks: Sequence[Ack], results: Sequence[AckResult]) -> list[AckResponse]:
    return [
        AckResponse(
            index=index,
            transaction_id=ack.transaction,
            success=result.error is None,
            error=result.error,
            queue_name=result.queue,
            partition_name=result.partition,
            lease_released=result.error is None and result.is_released,
            dlq=result.error is None and result.is_dead,
        )
        for index, (ack, result) in enumerate(zip(acks, results, strict=True))
    ]
