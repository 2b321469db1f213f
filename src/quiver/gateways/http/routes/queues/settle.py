"""POST /messages/ack, nack, reject and visibility: what becomes of messages that were received."""

from typing import TYPE_CHECKING, Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from quiver.gateways.http.field_notes import DURATION, RECEIPT, note
from quiver.gateways.http.operation import Operation, Routes
from quiver.gateways.http.request import Request
from quiver.gateways.http.response import Response
from quiver.gateways.http.routes.messages.incoming import Duration
from quiver.model.errors import (
    InvalidReceipt,
    InvalidRequest,
    LeaseLost,
    PartitionOffline,
    QuiverError,
    RequestTooLarge,
    SettleInOrder,
)
from quiver.model.limits import LONGEST_SETTLE_DELAY_MS, RECEIPTS_AT_ONCE
from quiver.model.settlement import ACK, EXTEND, NACK, REJECT, Receipt, parse_receipt
from quiver.model.times import format_time, parse_duration_ms

if TYPE_CHECKING:
    from quiver.queues.service import ReceiptOutcome
    from quiver.routing.facade import Facade


Done = Literal["acked", "requeued", "dlq", "rejected", "discarded", "extended"]


class AckRequest(msgspec.Struct, kw_only=True):
    """A receipt_handle, or receipts for several messages."""

    receipt_handle: Annotated[str | None, note(**RECEIPT)] = None
    receipts: Annotated[list[str] | None, note("At most 10,000.", minItems=1, maxItems=10_000)] = None


class NackRequest(AckRequest, kw_only=True):
    reason: Annotated[str | None, Meta(description="Shown as last_error with the next delivery.")] = None
    delay: Annotated[
        str | int | float | None, note("Until the next delivery; by default the group's backoff.", **DURATION)
    ] = None
    counted: Annotated[bool | None, Meta(description="False: this delivery does not count as an attempt.")] = None


class RejectRequest(AckRequest, kw_only=True):
    reason: Annotated[str | None, Meta(description="Kept with the dead letter.")] = None


class VisibilityRequest(AckRequest, kw_only=True):
    """The lease ends this long from now; without a time, after the group's visibility."""

    extension_seconds: Duration = None
    timeout: Duration = None


class Outcome(msgspec.Struct, kw_only=True):
    """What became of one message. Fields that do not apply to the action are null."""

    success: bool | UnsetType = UNSET
    action: Done | UnsetType = UNSET
    topic: str | UnsetType = UNSET
    partition: int | UnsetType = UNSET
    offset: int | UnsetType = UNSET
    delivery_count: int | UnsetType = UNSET
    next_visible_at: Annotated[
        str | UnsetType | None, Meta(description="When a message that was given back is delivered again.")
    ] = UNSET
    dlq_topic: Annotated[
        str | UnsetType | None, Meta(description="The dead-letter topic of a message that was given up.")
    ] = UNSET
    new_deadline: Annotated[str | UnsetType | None, Meta(description="When the lease that was extended ends.")] = (
        UNSET
    )
    committed_offset: Annotated[
        int | UnsetType | None, Meta(description="Everything below is settled in this partition.")
    ] = UNSET
    offset_advanced: bool | UnsetType = UNSET


class SettleResult(Outcome, kw_only=True):
    """For one receipt of several; with `success` false, why it was refused."""

    receipt_handle: str
    error: str | UnsetType = UNSET
    code: str | UnsetType = UNSET
    retryable: bool | UnsetType = UNSET
    status: int | UnsetType = UNSET


class SettleResponse(Outcome, kw_only=True):
    """For a receipt_handle the outcome itself; for receipts only `results`, in their order."""

    results: list[SettleResult] | UnsetType = UNSET


class SettleRoutes:
    def __init__(self, broker: "Facade") -> None:
        self._broker = broker

    async def ack(self, request: Request) -> Response:
        return await self._settle(ACK, await request.body(AckRequest))

    async def nack(self, request: Request) -> Response:
        wanted = await request.body(NackRequest)
        delay_ms = None if wanted.delay is None else _bounded_ms(wanted.delay, "delay")
        return await self._settle(
            NACK, wanted, delay_ms=delay_ms, is_counted=wanted.counted is not False, reason=wanted.reason or ""
        )

    async def reject(self, request: Request) -> Response:
        wanted = await request.body(RejectRequest)
        return await self._settle(REJECT, wanted, reason=wanted.reason or "")

    async def extend(self, request: Request) -> Response:
        wanted = await request.body(VisibilityRequest)
        return await self._settle(EXTEND, wanted, delay_ms=_extension_ms(wanted))

    async def _settle(self, action: int, wanted: AckRequest, **options: Any) -> Response:
        settle = self._broker.queues.settle_receipts
        if wanted.receipts is None:
            if wanted.receipt_handle is None:
                raise InvalidRequest(problem='the body needs "receipt_handle", or "receipts": [...]')
            [outcome] = await settle(action, [parse_receipt(wanted.receipt_handle)], **options)
            if outcome.error is not None:
                raise outcome.error
            return Response(SettleResponse(success=True, **_fields(action, outcome)))
        if wanted.receipt_handle is not None:
            raise InvalidRequest(problem="give receipt_handle or receipts, not both")
        if len(wanted.receipts) > RECEIPTS_AT_ONCE:
            raise RequestTooLarge(
                f"{len(wanted.receipts)} receipts are over the limit of {RECEIPTS_AT_ONCE}; split them"
            )
        parsed = [_parsed(text) for text in wanted.receipts]
        outcomes = iter(await settle(action, [one for one in parsed if isinstance(one, Receipt)], **options))
        results = [
            _result(action, text, one if isinstance(one, QuiverError) else next(outcomes))
            for text, one in zip(wanted.receipts, parsed, strict=True)
        ]
        return Response(SettleResponse(results=results))


def settle_routes(broker: "Facade") -> Routes:
    routes = SettleRoutes(broker)
    receipt = "orders:0:42:1:1-100000001"

    def operation(**more: Any) -> Operation:
        errors = (InvalidRequest, InvalidReceipt, LeaseLost, SettleInOrder, RequestTooLarge, PartitionOffline)
        return Operation(tag="Queues", response=SettleResponse, errors=errors, body_needed=True, **more)

    return {
        "/messages/ack": {
            "POST": operation(
                handler=routes.ack,
                summary="Ack messages; the acks are on disk when this returns",
                body=AckRequest,
                example={"receipts": [receipt]},
            )
        },
        "/messages/nack": {
            "POST": operation(
                handler=routes.nack,
                summary="Give messages back, to be delivered again",
                body=NackRequest,
                example={"receipt_handle": receipt, "delay": "10s", "reason": "the mail server is down"},
            )
        },
        "/messages/reject": {
            "POST": operation(
                handler=routes.reject,
                summary="Reject messages that can never be processed: they go to the dead-letter topic",
                body=RejectRequest,
                example={"receipt_handle": receipt, "reason": "not an address"},
            )
        },
        "/messages/visibility": {
            "POST": operation(
                handler=routes.extend,
                summary="Extend leases: they end this long from now",
                body=VisibilityRequest,
                example={"receipt_handle": receipt, "timeout": "5m"},
            )
        },
    }


def _parsed(text: str) -> Receipt | InvalidReceipt:
    try:
        return parse_receipt(text)
    except InvalidReceipt as error:
        return error


def _bounded_ms(value: object, what: str) -> int:
    parsed = parse_duration_ms(value, what)
    if parsed > LONGEST_SETTLE_DELAY_MS:
        raise InvalidRequest(problem=f"{what} {value!r} is over ten years")
    return parsed


def _extension_ms(wanted: VisibilityRequest) -> int | None:
    given = {
        _bounded_ms(value, name)
        for name, value in (("extension_seconds", wanted.extension_seconds), ("timeout", wanted.timeout))
        if value is not None
    }
    if len(given) > 1:
        raise InvalidRequest(problem="extension_seconds and timeout disagree; send one of them")
    return given.pop() if given else None


def _result(action: int, text: str, outcome: "ReceiptOutcome | QuiverError") -> SettleResult:
    error = outcome if isinstance(outcome, QuiverError) else outcome.error
    if error is None:
        return SettleResult(receipt_handle=text, success=True, **_fields(action, outcome))
    return SettleResult(
        receipt_handle=text,
        success=False,
        error=error.message,
        code=error.code,
        retryable=error.retryable,
        status=error.status,
    )


def _fields(action: int, outcome: Any) -> dict[str, Any]:
    """Of a ReceiptOutcome without an error."""
    until = None if outcome.until_ms is None else format_time(outcome.until_ms)
    return {
        "action": _done(action, outcome),
        "topic": outcome.topic,
        "partition": outcome.partition,
        "offset": outcome.offset,
        "delivery_count": outcome.attempt,
        "next_visible_at": until if action == NACK else None,
        "dlq_topic": outcome.dlq_topic,
        "new_deadline": until if action == EXTEND else None,
        "committed_offset": outcome.committed_offset,
        "offset_advanced": outcome.offset_advanced,
    }


def _done(action: int, outcome: Any) -> Done:
    if action == NACK:
        if outcome.dlq_topic is not None:
            return "dlq"
        return "discarded" if outcome.until_ms is None else "requeued"
    return "acked" if action == ACK else "rejected" if action == REJECT else "extended"
