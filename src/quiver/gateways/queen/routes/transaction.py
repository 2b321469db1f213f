"""POST /api/v1/transaction: acknowledgements and pushes that take effect together or not at all."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from quiver.gateways.http.field_notes import needed
from quiver.gateways.http.media import Media
from quiver.gateways.http.operation import Operation, Routes
from quiver.gateways.http.request import Request
from quiver.gateways.http.response import Response
from quiver.gateways.queen.acks.held_acks import LEASE_LOST, Ack, AckFinder, AckResult
from quiver.gateways.queen.acks.transaction_acks import TransactionAcks
from quiver.gateways.queen.identifiers import message_id, parse_partition_id, partition_id, random_id
from quiver.gateways.queen.incoming import PushItem, for_queue
from quiver.gateways.queen.messages import own_id
from quiver.gateways.queen.queues import QueenQueues, group_name
from quiver.gateways.queen.routes.acks import made_ack
from quiver.gateways.queen.transactions.committer import Committer
from quiver.gateways.queen.transactions.dead_letters import dead_letters
from quiver.gateways.queen.transactions.frames import Push
from quiver.model.errors import (
    InvalidName,
    InvalidRequest,
    LeaseLost,
    QuiverError,
    RequestTooLarge,
    SettleInOrder,
)
from quiver.model.limits import PUBLISHED_AT_ONCE
from quiver.system.pace import Pace

if TYPE_CHECKING:
    from quiver.messages.publish import Published
    from quiver.routing.facade import Facade


class QueenStep(msgspec.Struct, kw_only=True, rename="camel"):
    """An acknowledgement, or messages to push."""

    type: Annotated[str, Meta(description="ack or push.")]
    transaction_id: str | None = None
    partition_id: str | None = None
    status: Annotated[str, Meta(description="As of an ack; failed means a dead letter at once.")] = "completed"
    consumer_group: str | None = None
    lease_id: Annotated[str | None, Meta(description="With it, the lease must still hold.")] = None
    error: Annotated[str | None, Meta(description="Kept with the dead letter.")] = None
    items: Annotated[list[PushItem] | None, Meta(description="Of a push.")] = None


class QueenTransactionRequest(msgspec.Struct, kw_only=True, rename="camel"):
    operations: Annotated[list[QueenStep] | None, needed(minItems=1, maxItems=PUBLISHED_AT_ONCE)] = None
    required_leases: Annotated[
        list[str] | None, Meta(description="Leases that must hold. Acks without a lease must be held by one of them.")
    ] = None


class QueenStepResult(msgspec.Struct, kw_only=True, rename="camel"):
    index: Annotated[int, Meta(description="An item that is pushed counts as an operation.")]
    type: Literal["ack", "push"]
    success: bool
    transaction_id: str | None = None
    message_id: str | None = None
    partition_id: str | None = None
    queue_name: str | None = None
    status: Annotated[str | UnsetType, Meta(description="Of a push: queued or duplicate.")] = UNSET
    error: str | None = None
    dlq: bool = False


class QueenTransactionResponse(msgspec.Struct, kw_only=True, rename="camel"):
    transaction_id: str
    success: Annotated[bool, Meta(description="If not, nothing took effect.")]
    error: str | UnsetType = UNSET
    results: list[QueenStepResult]


class _Refused(Exception):
    """The transaction is not committed; results say why."""

    def __init__(self, error: str, results: Sequence[AckResult] = ()) -> None:
        super().__init__(error)
        self.error = error
        self.results = results


class TransactionRoute:
    def __init__(self, broker: "Facade", queues: QueenQueues, finder: AckFinder, committer: Committer) -> None:
        self._broker = broker
        self._queues = queues
        self._finder = finder
        self._committer = committer

    async def run(self, request: Request) -> Response:
        wanted = await request.body(QueenTransactionRequest)
        steps = _flat(wanted.operations or [])
        acks = [_ack(step) for step in steps if isinstance(step, QueenStep)]
        items = [step for step in steps if isinstance(step, PushItem)]
        id = random_id()
        parts = TransactionAcks(self._broker, self._finder)
        try:
            pushes = await self._pushes(items, request.media)
            results = await parts.find(acks, wanted.required_leases or [])
            if parts.error is not None:
                raise _Refused(parts.error, results)
            published = await self._committer.commit(
                [*pushes, *await dead_letters(self._broker, parts.planned)], parts.acks
            )
            await parts.committed()
        except (_Refused, QuiverError) as error:
            return Response(_failed(id, steps, error))
        finally:
            parts.release()
        return Response(
            QueenTransactionResponse(
                transaction_id=id, success=True, results=_results(steps, results, parts, pushes, published)
            )
        )

    async def _pushes(self, items: Sequence[PushItem], media: Media) -> list[Push]:
        """Every item is checked before a queue is created for one."""
        pace = Pace()
        messages = []
        for item in items:
            messages.append(item.message(media))
            await pace.turn()
        now_ms = self._broker.clock.now_ms()
        found = []
        for item, message in zip(items, messages, strict=True):
            topic = await self._queues.ensure(item.queue)
            found.append(Push(topic, for_queue(message, topic, now_ms)))
        return found


def _flat(steps: Sequence[QueenStep]) -> list[QueenStep | PushItem]:
    if not steps:
        raise InvalidRequest(problem='the body needs "operations": a list with at least one ack or push')
    found: list[QueenStep | PushItem] = []
    for step in steps:
        if step.type == "push":
            found += step.items or []
        elif step.type == "ack":
            found.append(step)
        else:
            raise InvalidRequest(problem=f"operation {step.type[:80]!r} is not ack or push")
    if len(found) > PUBLISHED_AT_ONCE:
        raise RequestTooLarge(f"{len(found)} operations are over the limit of {PUBLISHED_AT_ONCE}; split them")
    return found


def _ack(step: QueenStep) -> Ack:
    if not step.transaction_id or not step.partition_id:
        raise InvalidRequest(problem="an ack needs transactionId and partitionId")
    return made_ack(step.transaction_id, step.partition_id, group_name(step.consumer_group), step)


def _failed(
    id: str, steps: Sequence[QueenStep | PushItem], error: _Refused | QuiverError
) -> QueenTransactionResponse:
    """Raises the error if it says nothing about the request: then trying again helps, or nobody knows what became of
    it."""
    if isinstance(error, QuiverError):
        if isinstance(error, InvalidRequest | InvalidName) or error.status >= 500:
            raise error
        text = LEASE_LOST if isinstance(error, LeaseLost | SettleInOrder) else error.message
        acked: Sequence[AckResult] = ()
    else:
        text, acked = error.error, error.results
    left = iter(acked)
    results = []
    for index, step in enumerate(steps):
        is_ack = isinstance(step, QueenStep)
        found = next(left, None) if is_ack else None
        results.append(
            QueenStepResult(
                index=index,
                type="ack" if is_ack else "push",
                success=False,
                transaction_id=step.transaction_id,
                queue_name=step.queue if isinstance(step, PushItem) else None if found is None else found.queue,
                error=None if found is None else found.error,
            )
        )
    return QueenTransactionResponse(transaction_id=id, success=False, error=text, results=results)


def _results(
    steps: Sequence[QueenStep | PushItem],
    acked: Sequence[AckResult],
    parts: TransactionAcks,
    pushes: Sequence[Push],
    published: "Sequence[Published]",
) -> list[QueenStepResult]:
    found: list[QueenStepResult] = []
    acks, pushed = iter(enumerate(acked)), iter(zip(pushes, published, strict=False))
    for index, step in enumerate(steps):
        if isinstance(step, PushItem):
            found.append(_push_result(index, step, *next(pushed)))
        else:
            place, result = next(acks)
            found.append(_ack_result(index, step, result, parts.offsets.get(place)))
    return found


def _push_result(index: int, item: PushItem, push: Push, published: "Published") -> QueenStepResult:
    stored_id = own_id(push.message.headers, push.topic.id, published.partition, published.offset)
    return QueenStepResult(
        index=index,
        type="push",
        success=True,
        transaction_id=item.transaction_id or stored_id,
        message_id=stored_id,
        partition_id=partition_id(push.topic.id, item.key),
        queue_name=item.queue,
        status="duplicate" if published.duplicate else "queued",
    )


def _ack_result(index: int, step: QueenStep, result: AckResult, place: tuple[int, int] | None) -> QueenStepResult:
    named = parse_partition_id(step.partition_id or "")
    id = None if place is None or named is None else message_id(named.topic_id, *place)
    return QueenStepResult(
        index=index,
        type="ack",
        success=True,
        transaction_id=step.transaction_id,
        message_id=id,
        partition_id=step.partition_id,
        queue_name=result.queue,
        dlq=result.is_dead,
    )


def transaction_routes(broker: "Facade", queues: QueenQueues, finder: AckFinder, committer: Committer) -> Routes:
    ack = {"type": "ack", "transactionId": "order-1", "partitionId": "1-RGVmYXVsdA", "status": "completed"}
    operation = Operation(
        handler=TransactionRoute(broker, queues, finder, committer).run,
        summary="Acknowledge and push in one transaction; 200 also when it fails",
        tag="Queen",
        body=QueenTransactionRequest,
        example={"operations": [ack, {"type": "push", "items": [{"queue": "invoices", "payload": {"id": 1}}]}]},
        response=QueenTransactionResponse,
        errors=(InvalidRequest, InvalidName, RequestTooLarge),
    )
    return {"/api/v1/transaction": {"POST": operation}}
