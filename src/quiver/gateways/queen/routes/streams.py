"""/streams/v1: cycles of stream processors, which change state, push and acknowledge in one transaction."""

from typing import TYPE_CHECKING, Annotated, Any

import msgspec
from msgspec import UNSET, Meta, UnsetType

from quiver.gateways.http.field_notes import needed, note
from quiver.gateways.http.media import JSON, Media
from quiver.gateways.http.operation import Routes
from quiver.gateways.http.request import Request
from quiver.gateways.http.response import Response
from quiver.gateways.queen.acks.held_acks import LEASE_LOST, Ack, AckFinder
from quiver.gateways.queen.acks.transaction_acks import TransactionAcks
from quiver.gateways.queen.incoming import PushItem, absent, for_queue, json_text
from quiver.gateways.queen.messages import own_id, payload, shown_time
from quiver.gateways.queen.queues import QueenQueues, checked_queue, group_name
from quiver.gateways.queen.routes.acks import made_ack
from quiver.gateways.queen.routes.operations import queen_operation
from quiver.gateways.queen.stream_state.queries import Queries, Query
from quiver.gateways.queen.stream_state.tables import StatePlace, StateTables
from quiver.gateways.queen.transactions.committer import Committer
from quiver.gateways.queen.transactions.dead_letters import dead_letters
from quiver.gateways.queen.transactions.frames import Push
from quiver.model.errors import InvalidName, InvalidRequest, LeaseLost, QuiverError, RequestTooLarge, SettleInOrder
from quiver.model.limits import PUBLISHED_AT_ONCE

if TYPE_CHECKING:
    from quiver.messages.publish import Published
    from quiver.routing.facade import Facade

_LONGEST_KEY = 1_024


class QueryRequest(msgspec.Struct, kw_only=True):
    name: Annotated[str | None, needed()] = None
    source_queue: Annotated[str | None, needed()] = None
    sink_queue: str | None = None
    config_hash: Annotated[str | None, needed()] = None
    reset: Annotated[bool, Meta(description="Removes the state; needed where the hash differs.")] = False


class QueryResponse(msgspec.Struct, kw_only=True):
    success: bool
    query_id: str | None
    name: str
    config_hash: str
    fresh: bool
    reset: bool
    error: str | UnsetType = UNSET


class StateOperation(msgspec.Struct, kw_only=True):
    type: Annotated[str, Meta(description="upsert or delete.")]
    key: str
    value: msgspec.Raw = msgspec.field(default_factory=absent)


class CycleAck(msgspec.Struct, kw_only=True, rename="camel"):
    transaction_id: str
    lease_id: str | None = None
    status: str = "completed"
    error: str | None = None
    count: Annotated[int | None, Meta(description="Messages that it settles.")] = None


class CycleRequest(msgspec.Struct, kw_only=True):
    query_id: Annotated[str | None, needed()] = None
    partition_id: Annotated[str | None, needed()] = None
    consumer_group: str | None = None
    release_lease: Annotated[bool, Meta(description="Whether the rest of the lease is given back.")] = True
    state_ops: Annotated[list[StateOperation] | None, note(maxItems=PUBLISHED_AT_ONCE)] = None
    push_items: Annotated[list[PushItem] | None, note(maxItems=PUBLISHED_AT_ONCE)] = None
    ack: CycleAck | None = None


class CyclePush(msgspec.Struct, kw_only=True):
    index: int
    status: str
    message_id: str
    transaction_id: str


class CycleAckResult(msgspec.Struct, kw_only=True):
    success: bool
    count: int
    lease_released: bool
    dlq: bool


class CycleResponse(msgspec.Struct, kw_only=True):
    success: Annotated[bool, Meta(description="If not, nothing took effect.")]
    query_id: str
    partition_id: str
    queue_name: str | None = msgspec.field(name="queueName", default=None)
    state_ops_applied: int = 0
    push_results: list[CyclePush] = []
    ack_result: CycleAckResult | None = None
    error: str | UnsetType = UNSET


class StateRequest(msgspec.Struct, kw_only=True):
    query_id: Annotated[str | None, needed()] = None
    partition_id: Annotated[str | None, needed()] = None
    keys: Annotated[list[str] | None, Meta(description="None, or an empty list: all.")] = None
    key_prefix: str | None = None
    ripe_at_or_before: Annotated[
        float | None, Meta(description="Only rows whose value has a `windowEnd` that is not later.")
    ] = None


class StateRowResponse(msgspec.Struct, kw_only=True):
    key: str
    value: Any
    updated_at: str


class StateResponse(msgspec.Struct, kw_only=True):
    success: bool
    rows: list[StateRowResponse]
    error: str | UnsetType = UNSET


class StreamRoutes:
    def __init__(
        self,
        broker: "Facade",
        queues: QueenQueues,
        finder: AckFinder,
        committer: Committer,
        *,
        queries: Queries,
        tables: StateTables,
    ) -> None:
        self._broker = broker
        self._queues = queues
        self._finder = finder
        self._committer = committer
        self._queries = queries
        self._tables = tables

    async def register(self, request: Request) -> Response:
        wanted = await request.body(QueryRequest)
        if not wanted.name or not wanted.source_queue or wanted.config_hash is None:
            raise InvalidRequest(problem='the body needs "name", "source_queue" and "config_hash"')
        if wanted.sink_queue:
            checked_queue(wanted.sink_queue)
        query = Query(
            id="",
            name=wanted.name,
            source_queue=checked_queue(wanted.source_queue),
            sink_queue=wanted.sink_queue,
            config_hash=wanted.config_hash,
        )
        found = await self._queries.register(query, reset=wanted.reset)
        if found is None:
            problem = "the query is known with another config_hash: send reset to begin again without its state"
            refused = QueryResponse(
                success=False,
                query_id=None,
                name=query.name,
                config_hash=query.config_hash,
                fresh=False,
                reset=False,
                error=problem,
            )
            return Response(refused, 409)
        return Response(
            QueryResponse(
                success=True,
                query_id=found.query.id,
                name=found.query.name,
                config_hash=found.query.config_hash,
                fresh=found.is_fresh,
                reset=found.was_reset,
            )
        )

    async def state(self, request: Request) -> Response:
        wanted = await request.body(StateRequest)
        place = await self._place(wanted.query_id, wanted.partition_id)
        rows = await self._tables.rows(place)
        keys = wanted.keys or sorted(rows)
        media = request.response_media
        found = [
            StateRowResponse(
                key=key, value=payload(rows[key].value, media), updated_at=shown_time(rows[key].updated_ms)
            )
            for key in keys
            if key in rows
            and (wanted.key_prefix is None or key.startswith(wanted.key_prefix))
            and (wanted.ripe_at_or_before is None or _is_ripe(rows[key].value, wanted.ripe_at_or_before))
        ]
        return Response(StateResponse(success=True, rows=found))

    async def _place(self, query_id: str | None, partition_id: str | None) -> StatePlace:
        if not query_id or not partition_id:
            raise InvalidRequest(problem='the body needs "query_id" and "partition_id"')
        if await self._queries.find(query_id) is None:
            raise InvalidRequest(problem=f"there is no query {query_id[:80]!r}: register it first")
        return StatePlace(query_id, partition_id)

    async def cycle(self, request: Request) -> Response:
        wanted = await request.body(CycleRequest)
        place = await self._place(wanted.query_id, wanted.partition_id)
        items = wanted.push_items or []
        if len(items) + len(wanted.state_ops or []) > PUBLISHED_AT_ONCE:
            raise RequestTooLarge(f"a cycle has at most {PUBLISHED_AT_ONCE} changes and items; split them")
        changes = [
            await self._tables.push(place, _checked_key(each), _state_value(each, request.media))
            for each in wanted.state_ops or []
        ]
        acks = [] if wanted.ack is None else [_ack(wanted, wanted.ack)]
        parts = TransactionAcks(self._broker, self._finder)
        try:
            pushes = await self._pushes(items, request.media)
            results = await parts.find(acks, [])
            if parts.error is not None:
                return Response(_failed(place, parts.error))
            dead = await dead_letters(self._broker, parts.planned)
            published = await self._committer.commit([*pushes, *changes, *dead], parts.acks)
            await parts.committed()
            if wanted.release_lease:
                await parts.give_back_rest()
        except QuiverError as error:
            if isinstance(error, InvalidRequest | InvalidName) or error.status >= 500:
                raise
            is_lost = isinstance(error, LeaseLost | SettleInOrder)
            return Response(_failed(place, LEASE_LOST if is_lost else error.message))
        finally:
            parts.release()
        ended = None
        if results:
            is_over = wanted.release_lease or results[0].is_released
            count = (wanted.ack.count if wanted.ack else None) or parts.settled_count
            ended = CycleAckResult(success=True, count=count, lease_released=is_over, dlq=results[0].is_dead)
        return Response(
            CycleResponse(
                success=True,
                query_id=place.query_id,
                partition_id=place.partition_id,
                queue_name=results[0].queue if results else None,
                state_ops_applied=len(changes),
                push_results=_pushed(items, pushes, published),
                ack_result=ended,
            )
        )

    async def _pushes(self, items: list[PushItem], media: Media) -> list[Push]:
        messages = [item.message(media) for item in items]
        now_ms, found = self._broker.clock.now_ms(), []
        for item, message in zip(items, messages, strict=True):
            topic = await self._queues.ensure(item.queue)
            found.append(Push(topic, for_queue(message, topic, now_ms)))
        return found


def _checked_key(change: StateOperation) -> str:
    if change.type not in ("upsert", "delete"):
        raise InvalidRequest(problem=f"a state operation is upsert or delete, not {change.type[:80]!r}")
    if not 1 <= len(change.key) <= _LONGEST_KEY:
        raise InvalidRequest(problem=f"the key of a state row has 1 to {_LONGEST_KEY} characters")
    return change.key


def _state_value(change: StateOperation, media: Media) -> bytes | None:
    return None if change.type == "delete" else json_text(change.value, media)


def _ack(wanted: CycleRequest, ack: CycleAck) -> Ack:
    return made_ack(ack.transaction_id, wanted.partition_id or "", group_name(wanted.consumer_group), ack)


def _is_ripe(value: bytes, until: float) -> bool:
    found = payload(value, JSON)
    decoded = msgspec.json.decode(found) if isinstance(found, msgspec.Raw) else found
    end = decoded.get("windowEnd") if isinstance(decoded, dict) else None
    return isinstance(end, int | float) and not isinstance(end, bool) and end <= until


def _failed(place: StatePlace, error: str) -> CycleResponse:
    return CycleResponse(success=False, query_id=place.query_id, partition_id=place.partition_id, error=error)


def _pushed(items: list[PushItem], pushes: list[Push], published: "list[Published]") -> list[CyclePush]:
    found = []
    for index, (item, push, one) in enumerate(zip(items, pushes, published, strict=False)):
        id = own_id(push.message.headers, push.topic.id, one.partition, one.offset)
        status = "duplicate" if one.duplicate else "queued"
        found.append(CyclePush(index=index, status=status, message_id=id, transaction_id=item.transaction_id or id))
    return found


def stream_routes(routes: StreamRoutes) -> Routes:
    root = "/streams/v1"
    query = {"name": "totals", "source_queue": "orders", "sink_queue": "totals", "config_hash": "1"}
    place = {"query_id": "0f1e", "partition_id": "1-RGVmYXVsdA"}
    return {
        f"{root}/queries": {
            "POST": queen_operation(
                routes.register,
                "Register a stream processor; 409 if it is known with another hash",
                QueryResponse,
                body=QueryRequest,
                example=query,
                other_status=409,
            )
        },
        f"{root}/cycle": {
            "POST": queen_operation(
                routes.cycle,
                "Change state, push and acknowledge in one transaction; 200 also when it fails",
                CycleResponse,
                body=CycleRequest,
                example={**place, "state_ops": [{"type": "upsert", "key": "sum", "value": 1}]},
            )
        },
        f"{root}/state/get": {
            "POST": queen_operation(
                routes.state, "Read state", StateResponse, body=StateRequest, example={**place, "keys": []}
            )
        },
    }
