"""Transactions over plain requests: producers, what is part of a transaction, and its end."""

from typing import TYPE_CHECKING, Annotated, Any
from urllib.parse import unquote

import msgspec
from msgspec import UNSET, Meta

from quiver.gateways.http.field_notes import NAME, note
from quiver.gateways.http.operation import Handler, Operation, Routes
from quiver.gateways.http.request import Request, partition_number
from quiver.gateways.http.response import Response
from quiver.gateways.http.routes.groups.offsets import ByPartition
from quiver.gateways.http.routes.groups.responses import DoneResponse
from quiver.gateways.http.routes.messages.incoming import MessageToPublish, new_message
from quiver.gateways.http.routes.topics.topics import ListQuery
from quiver.gateways.http.routes.transactions.responses import (
    BegunResponse,
    EndedResponse,
    ProducerResponse,
    PublishedResponse,
    TransactionalProducerListResponse,
    TransactionListResponse,
    TransactionStatsResponse,
    producer_response,
    transaction_response,
)
from quiver.model.errors import (
    GenerationMismatch,
    GroupNotEmpty,
    InvalidName,
    InvalidRequest,
    LeaseLost,
    MemberFenced,
    MemberNotFound,
    MessageTooLarge,
    OutOfSequence,
    PartitionNotFound,
    ProducerFenced,
    TopicNotFound,
    TransactionConflict,
    UnknownProducer,
)
from quiver.model.names import check_name
from quiver.model.numbers import shown, whole_number
from quiver.model.settlement import parse_receipt
from quiver.model.transaction import DEFAULT_TIMEOUT_MS, CommitPart, GroupOffsetCommit, LeasedAcks, ProducerKey

if TYPE_CHECKING:
    from quiver.routing.facade import Facade

_Epoch = Annotated[int, Meta(ge=0, description="From init, or from the last commit or abort.")]


class InitRequest(msgspec.Struct, kw_only=True):
    transactional_id: Annotated[
        str | None, Meta(description="The same one gets the same producer, one epoch higher.")
    ] = None
    transaction_timeout_ms: Annotated[int, Meta(ge=1, description="60 seconds when absent.")] | None = None


class ProducerHeartbeatRequest(msgspec.Struct, kw_only=True):
    epoch: _Epoch
    transactional_id: str | None = None


class TransactionRequest(msgspec.Struct, kw_only=True):
    producer_id: Annotated[int, Meta(ge=0)]
    epoch: _Epoch
    transactional_id: str | None = None


class TransactionPublishRequest(MessageToPublish, kw_only=True):
    """A message, with its topic. Its partition is added to the transaction."""

    producer_id: Annotated[int, Meta(ge=0)]
    epoch: _Epoch
    transactional_id: str | None = None
    topic: Annotated[str, note(**NAME)]
    sequence: (
        Annotated[int, Meta(ge=0, description="Grows with every message to a partition; a repeat is a duplicate.")]
        | None
    ) = None


class AddPartitionRequest(TransactionRequest, kw_only=True):
    topic: Annotated[str, note(**NAME)]
    partition: Annotated[int, Meta(ge=0)]


class AddOffsetsRequest(TransactionRequest, kw_only=True):
    """Without member_id the group must have no members."""

    group: Annotated[str, note(**NAME)]
    offsets: dict[str, ByPartition]
    member_id: str | None = None
    generation: int | None = None


class ProducerToEnd(msgspec.Struct):
    producer_id: Annotated[int, Meta(ge=0)]
    epoch: _Epoch


class AbortRequest(msgspec.Struct, kw_only=True):
    """One producer, or several by `producers`."""

    producer_id: Annotated[int, Meta(ge=0)] | None = None
    epoch: _Epoch | None = None
    transactional_id: str | None = None
    producers: list[ProducerToEnd] | None = None


class CommitTransactionRequest(AbortRequest, kw_only=True):
    key: Annotated[str | None, Meta(description="A repeat with the same key gets the same response.")] = None
    description: Annotated[
        str | None, Meta(description="What the key stands for. The same key with another description is refused.")
    ] = None
    receipts: Annotated[
        list[str], Meta(description="Receipt handles of messages that are acked with it.", max_length=10_000)
    ] = []


class ProducersQuery(msgspec.Struct, kw_only=True):
    limit: Annotated[int, Meta(ge=1, le=1_000)] = 100
    skip: Annotated[int, Meta(ge=0, le=1_000_000)] = 0


class TransactionRoutes:
    def __init__(self, broker: "Facade") -> None:
        self._broker = broker

    async def init(self, request: Request) -> Response:
        wanted = await request.body(InitRequest)
        timeout_ms = wanted.transaction_timeout_ms
        key = await self._broker.transactions.init(
            wanted.transactional_id, DEFAULT_TIMEOUT_MS if timeout_ms is None else timeout_ms
        )
        return Response(ProducerResponse(producer_id=key.producer_id, epoch=key.epoch))

    async def heartbeat(self, request: Request) -> Response:
        text = unquote(request.params["producer"])
        producer_id = whole_number(text)
        if producer_id is None:
            raise InvalidRequest(problem=f"{shown(text)} is not a producer id")
        wanted = await request.body(ProducerHeartbeatRequest)
        await self._check_name(producer_id, wanted.transactional_id)
        await self._broker.transactions.heartbeat(producer_id, wanted.epoch)
        return Response(ProducerResponse(producer_id=producer_id, epoch=wanted.epoch))

    async def begin(self, request: Request) -> Response:
        wanted = await request.body(TransactionRequest)
        await self._check_name(wanted.producer_id, wanted.transactional_id)
        info = await self._broker.transactions.begin(wanted.producer_id, wanted.epoch)
        return Response(
            BegunResponse(transaction_id=info.transaction_id, producer_id=wanted.producer_id, epoch=wanted.epoch)
        )

    async def publish(self, request: Request) -> Response:
        wanted = await request.body(TransactionPublishRequest)
        await self._check_name(wanted.producer_id, wanted.transactional_id)
        message = new_message(wanted, request.media, self._broker.clock.now_ms())
        await self._broker.ensure_topic(check_name(wanted.topic))
        published = await self._broker.transactions.publish(
            wanted.producer_id, wanted.epoch, wanted.topic, message, sequence=wanted.sequence
        )
        delayed = True if published.delayed else UNSET
        return Response(PublishedResponse(published.partition, published.offset, published.duplicate, delayed))

    async def add_partition(self, request: Request) -> Response:
        wanted = await request.body(AddPartitionRequest)
        await self._check_name(wanted.producer_id, wanted.transactional_id)
        topic = check_name(wanted.topic)
        await self._broker.transactions.add_partition(wanted.producer_id, wanted.epoch, topic, wanted.partition)
        return Response(DoneResponse())

    async def add_offsets(self, request: Request) -> Response:
        wanted = await request.body(AddOffsetsRequest)
        await self._check_name(wanted.producer_id, wanted.transactional_id)
        parts = [
            CommitPart(self._broker.topic(check_name(topic)).id, partition_number(number), offset)
            for topic, by_partition in wanted.offsets.items()
            for number, offset in by_partition.items()
        ]
        group = GroupOffsetCommit(check_name(wanted.group, "group"), parts, wanted.member_id, wanted.generation)
        await self._broker.transactions.add_offsets(wanted.producer_id, wanted.epoch, [group])
        return Response(DoneResponse())

    async def commit(self, request: Request) -> Response:
        wanted = await request.body(CommitTransactionRequest)
        response = await self._broker.transactions.commit(
            await self._producers(wanted),
            key=wanted.key,
            description=wanted.description,
            acks=[self._ack(receipt) for receipt in wanted.receipts],
        )
        return Response(EndedResponse.of("committed", response.producers, response.is_repeat))

    async def abort(self, request: Request) -> Response:
        wanted = await request.body(AbortRequest)
        response = await self._broker.transactions.abort(await self._producers(wanted))
        return Response(EndedResponse.of("aborted", response.producers, response.is_repeat))

    async def all(self, request: Request) -> Response:
        query = request.query(ListQuery)
        found, total = await self._broker.transactions.list(skip=query.skip, limit=query.limit or 1_000)
        return Response(TransactionListResponse([transaction_response(info) for info in found], total))

    async def producers(self, request: Request) -> Response:
        query = request.query(ProducersQuery)
        found, total = await self._broker.transactions.producers(skip=query.skip, limit=query.limit)
        return Response(TransactionalProducerListResponse([producer_response(info) for info in found], total))

    async def stats(self, request: Request) -> Response:
        stats = await self._broker.transactions.stats()
        return Response(
            TransactionStatsResponse(
                active_transactions=stats.active,
                committed_total=stats.committed,
                aborted_total=stats.aborted,
                avg_duration=stats.average_duration_ms / 1000,
            )
        )

    async def _producers(self, wanted: AbortRequest) -> list[ProducerKey]:
        found = [ProducerKey(each.producer_id, each.epoch) for each in wanted.producers or ()]
        if wanted.producer_id is not None:
            if wanted.epoch is None:
                raise InvalidRequest(problem='the body needs "epoch" with "producer_id"')
            await self._check_name(wanted.producer_id, wanted.transactional_id)
            found.insert(0, ProducerKey(wanted.producer_id, wanted.epoch))
        if not found:
            raise InvalidRequest(problem='the body needs "producer_id" and "epoch", or "producers"')
        return found

    async def _check_name(self, producer_id: int, transactional_id: str | None) -> None:
        if transactional_id is not None:
            await self._broker.transactions.check_name(producer_id, transactional_id)

    def _ack(self, text: str) -> LeasedAcks:
        receipt = parse_receipt(text)
        topic_id = self._broker.topic(receipt.topic).id
        run = (receipt.offset, receipt.offset + 1)
        return LeasedAcks(topic_id, receipt.partition, receipt.group_id, receipt.lease_id, [run])


_FENCED = (InvalidRequest, ProducerFenced, UnknownProducer, TransactionConflict)
_PLACE = (InvalidName, TopicNotFound, PartitionNotFound)
_GROUPS = (GroupNotEmpty, MemberNotFound, MemberFenced, GenerationMismatch)
_PRODUCER = {"producer_id": 1000, "epoch": 0}


def _post(
    handler: Handler, summary: str, response: Any, body: Any, example: Any, *errors: Any
) -> dict[str, Operation]:
    operation = Operation(
        handler=handler,
        summary=summary,
        tag="Transactions",
        response=response,
        body=body,
        body_needed=issubclass(body, AbortRequest),
        example=example,
        errors=errors,
    )
    return {"POST": operation}


def _get(handler: Handler, summary: str, response: Any, query: Any = None) -> dict[str, Operation]:
    return {"GET": Operation(handler=handler, summary=summary, tag="Transactions", response=response, query=query)}


def transaction_routes(broker: "Facade") -> Routes:
    routes = TransactionRoutes(broker)
    return {**_content_routes(routes), **_end_routes(routes), **_producer_routes(routes)}


def _content_routes(routes: TransactionRoutes) -> Routes:
    return {
        "/transactions/publish": _post(
            routes.publish,
            "Publish a message in a transaction",
            PublishedResponse,
            TransactionPublishRequest,
            {**_PRODUCER, "topic": "orders", "value": {"id": 1}, "sequence": 0},
            *(*_FENCED, *_PLACE, OutOfSequence, MessageTooLarge),
        ),
        "/transactions/begin": _post(
            routes.begin, "Begin a transaction", BegunResponse, TransactionRequest, _PRODUCER, *_FENCED
        ),
        "/transactions/add-partition": _post(
            routes.add_partition,
            "Add a partition to a transaction; publishing does so by itself",
            DoneResponse,
            AddPartitionRequest,
            {**_PRODUCER, "topic": "orders", "partition": 0},
            *(*_FENCED, *_PLACE),
        ),
        "/transactions/add-offsets": _post(
            routes.add_offsets,
            "Add a group's offsets to a transaction",
            DoneResponse,
            AddOffsetsRequest,
            {**_PRODUCER, "group": "billing", "offsets": {"orders": {"0": 42}}},
            *(*_FENCED, *_PLACE, *_GROUPS),
        ),
    }


def _end_routes(routes: TransactionRoutes) -> Routes:
    summary = "List transactions that are open, or not applied in every partition yet"
    return {
        "/transactions/commit": _post(
            routes.commit,
            "Commit a transaction; returns when its messages can be read",
            EndedResponse,
            CommitTransactionRequest,
            _PRODUCER,
            *(*_FENCED, *_GROUPS, LeaseLost),
        ),
        "/transactions/abort": _post(
            routes.abort, "Abort a transaction", EndedResponse, AbortRequest, _PRODUCER, *_FENCED
        ),
        "/transactions": _get(routes.all, summary, TransactionListResponse, ListQuery),
        "/transactions/stats": _get(routes.stats, "Counters of transactions", TransactionStatsResponse),
    }


def _producer_routes(routes: TransactionRoutes) -> Routes:
    return {
        "/producers": _get(
            routes.producers,
            "List transactional producers with how their last transaction ended",
            TransactionalProducerListResponse,
            ProducersQuery,
        ),
        "/producers/init": _post(
            routes.init,
            "Get a producer for transactions",
            ProducerResponse,
            InitRequest,
            {"transactional_id": "billing-1"},
            InvalidRequest,
        ),
        "/producers/{producer}/heartbeat": _post(
            routes.heartbeat,
            "Keep a producer's open transaction from timing out",
            ProducerResponse,
            ProducerHeartbeatRequest,
            {"epoch": 0},
            *_FENCED,
        ),
    }
