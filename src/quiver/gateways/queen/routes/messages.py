"""Messages for people: a list, one with where it is for each group, and what to do about a dead letter."""

from typing import TYPE_CHECKING, Annotated, Any, Literal
from urllib.parse import unquote

import msgspec
from msgspec import UNSET, Meta, UnsetType

from quiver.dead_letters.search import Search
from quiver.gateways.http.media import Media
from quiver.gateways.http.operation import Routes
from quiver.gateways.http.request import Request
from quiver.gateways.http.response import Response
from quiver.gateways.queen.identifiers import parse_partition_id, partition_id
from quiver.gateways.queen.messages import own_id, payload, shown_time, trace_id, transaction_id
from quiver.gateways.queen.options import QueueOptions, definition_of, options_of
from quiver.gateways.queen.queues import QUEUE_MODE, QueenQueues, partition_key, partition_name
from quiver.gateways.queen.routes.operations import queen_operation, queue_of
from quiver.gateways.queen.stored_messages import Window, newest_messages, search_message
from quiver.model.dead_letter import DeadLetter, DeadLetterFilter
from quiver.model.errors import InvalidRequest, MessageNotFound, NotSupported, QuiverError
from quiver.model.limits import LISTED_AT_ONCE
from quiver.model.message import StoredMessage
from quiver.model.times import parse_time_ms
from quiver.model.topic import Topic
from quiver.model.trace.life import GroupStanding, LifeEvent, MessageLife
from quiver.system.pace import Pace

if TYPE_CHECKING:
    from quiver.routing.facade import Facade

_HOUR_MS = 3_600_000
_LOOKED_AT = 2_000
"""Messages that are looked at for those with a certain status."""

Status = Literal["pending", "processing", "completed", "dead_letter"]
_STATUS: dict[str, Status] = {
    "waiting": "pending",
    "retrying": "pending",
    "leased": "processing",
    "settled": "completed",
    "dead": "dead_letter",
    "unknown": "completed",
}


_UNDONE: tuple[Status, ...] = ("processing", "pending", "dead_letter")


class MessagesQuery(msgspec.Struct, kw_only=True, rename={"from_": "from"}):
    queue: str | None = None
    partition: str | None = None
    ns: str | None = None
    task: str | None = None
    status: Annotated[str | None, Meta(description="pending, processing, completed or dead_letter.")] = None
    from_: Annotated[str | None, Meta(description="A time; an hour ago if it is left out.")] = None
    to: str | None = None
    limit: Annotated[int, Meta(ge=1, le=1_000)] = 200
    offset: Annotated[int, Meta(ge=0, le=LISTED_AT_ONCE)] = 0


class ListedMessage(msgspec.Struct, kw_only=True, rename="camel"):
    id: str
    transaction_id: str
    partition_id: str
    queue_path: str
    queue: str
    partition: str
    namespace: str
    task: str
    status: Status
    trace_id: str | None
    created_at: str
    lease_expires_at: str | None


class ListedMessages(msgspec.Struct, kw_only=True):
    """The newest first."""

    messages: list[ListedMessage]


class MessageGroup(msgspec.Struct, kw_only=True, rename="camel"):
    name: str
    status: Status
    attempts: int


class MessageDetails(ListedMessage, kw_only=True, rename="camel"):
    payload: Any
    error_message: str | None
    retry_count: int
    queue_config: QueueOptions
    consumer_groups: list[MessageGroup]


class DeadLetterAction(msgspec.Struct, kw_only=True, rename="camel"):
    success: bool
    partition_id: str
    transaction_id: str
    deleted: bool | UnsetType = UNSET


class MessageRoutes:
    def __init__(self, broker: "Facade", queues: QueenQueues) -> None:
        self._broker = broker
        self._queues = queues

    async def newest(self, request: Request) -> Response:
        query = request.query(MessagesQuery)
        if "queue" in request.params:
            query.queue = queue_of(request)
        if query.status is not None and query.status not in _STATUS.values():
            raise InvalidRequest(problem=f"status {query.status[:80]!r} is not {', '.join(sorted(_STATUS.values()))}")
        now_ms = self._broker.clock.now_ms()
        window = Window(
            now_ms - _HOUR_MS if query.from_ is None else parse_time_ms(query.from_, "from"),
            None if query.to is None else parse_time_ms(query.to, "to"),
            None if query.partition is None else partition_key(query.partition),
        )
        end = query.offset + query.limit
        found: list[tuple[Topic, StoredMessage]] = []
        for topic in self._topics(query):
            details = await self._broker.describe(topic.name)
            limit = end if query.status is None else _LOOKED_AT
            messages = await newest_messages(self._broker, topic, details, limit, window)
            found += ((topic, message) for message in messages)
        found.sort(key=lambda pair: (pair[1].append_time_ms, pair[1].offset), reverse=True)
        return Response(ListedMessages(messages=await self._shown(found, query, end)))

    def _topics(self, query: MessagesQuery) -> list[Topic]:
        if query.queue is None:
            return self._queues.chosen(query.ns, query.task)
        topic = self._queues.find(query.queue)
        return [] if topic is None else [topic]

    async def _shown(
        self, found: list[tuple[Topic, StoredMessage]], query: MessagesQuery, end: int
    ) -> list[ListedMessage]:
        shown: list[ListedMessage] = []
        if query.status is None:
            found = found[query.offset : end]
        pace = Pace()
        for topic, message in found:
            listed = ListedMessage(**_fields(topic, message, await self._life(topic, message)))
            if query.status in (None, listed.status):
                shown.append(listed)
                if query.status is not None and len(shown) == end:
                    break
            await pace.turn()
        return shown if query.status is None else shown[query.offset : end]

    async def _life(self, topic: Topic, message: StoredMessage) -> MessageLife | None:
        """None if it is not known any more."""
        try:
            return await self._broker.life.of(topic.name, message.partition, message.offset)
        except QuiverError:
            return None

    async def one(self, request: Request) -> Response:
        topic, key, transaction = self._named(request)
        message = await search_message(self._broker, topic, key, transaction)
        if message is None or message.key != key:
            raise _unknown(transaction)
        return Response(_details(topic, message, await self._life(topic, message), request.response_media))

    async def delete(self, request: Request) -> Response:
        topic, key, transaction = self._named(request)
        letters = await self._dead_letters(topic, key, transaction)
        if not letters:
            if await search_message(self._broker, topic, key, transaction) is None:
                raise _unknown(transaction)
            raise NotSupported(feature="deleting a single message that is no dead letter (acknowledge it instead)")
        ids = [(each.partition, each.offset) for each in letters]
        await self._broker.dead_letters.purge(topic.name, Search(DeadLetterFilter(ids=ids)))
        return Response(_done(topic, key, transaction, deleted=True))

    async def retry(self, request: Request) -> Response:
        topic, key, transaction = self._named(request)
        letters = await self._dead_letters(topic, key, transaction)
        if not letters:
            raise _unknown(transaction)
        newest = max(letters, key=lambda each: each.cursor)
        search = Search(DeadLetterFilter(ids=[(newest.partition, newest.offset)]))
        await self._broker.dead_letters.redrive(topic.name, search)
        return Response(_done(topic, key, transaction))

    async def _dead_letters(self, topic: Topic, key: bytes, transaction: str) -> list[DeadLetter]:
        search = Search(DeadLetterFilter(key=key), newest_first=True)
        page = await self._broker.dead_letters.page(topic.name, search, limit=LISTED_AT_ONCE)
        return [each for each in page.dead_letters if dead_transaction(topic, each) == transaction]

    def _named(self, request: Request) -> tuple[Topic, bytes, str]:
        transaction = unquote(request.params["transaction"])
        named = parse_partition_id(unquote(request.params["partition_id"]))
        name = None if named is None else self._broker.streams.topic_name(named.topic_id)
        if named is None or named.key is None or name is None:
            raise _unknown(transaction)
        return self._broker.topic(name), named.key, transaction


def dead_transaction(topic: Topic, dead: DeadLetter) -> str:
    """The transactionId that a dead letter was pushed with."""
    original = dead.original
    partition, offset = (dead.partition, dead.offset) if original is None else (original.partition, original.offset)
    return transaction_id(dead.headers, topic.id, partition, offset)


def _unknown(transaction: str) -> MessageNotFound:
    return MessageNotFound(message=transaction[:80], problem="it was not found in this partition")


def _done(topic: Topic, key: bytes, transaction: str, **more: Any) -> DeadLetterAction:
    return DeadLetterAction(
        success=True, partition_id=partition_id(topic.id, key), transaction_id=transaction, **more
    )


def _status(groups: list[GroupStanding]) -> Status:
    """Of queue mode if it is used; otherwise completed when every group is done with it."""
    states = {each.group: _STATUS[each.state] for each in groups if each.kind == "queue"}
    if QUEUE_MODE in states:
        return states[QUEUE_MODE]
    for status in _UNDONE:
        if status in states.values():
            return status
    return "completed" if states else "pending"


def _fields(topic: Topic, message: StoredMessage, life: MessageLife | None) -> dict[str, Any]:
    definition = definition_of(topic)
    name = partition_name(message.key)
    status = _status(list(life.groups) if life is not None else [])
    leases = [each.until_ms for each in _events(life) if each.event in ("delivered", "extended")]
    until_ms = leases[-1] if leases and status == "processing" else None
    return {
        "id": own_id(message.headers, topic.id, message.partition, message.offset),
        "transaction_id": transaction_id(message.headers, topic.id, message.partition, message.offset),
        "partition_id": partition_id(topic.id, message.key),
        "queue_path": f"{topic.name}/{name}",
        "queue": topic.name,
        "partition": name,
        "namespace": definition.namespace,
        "task": definition.task,
        "status": status,
        "trace_id": trace_id(message.headers),
        "created_at": shown_time(message.append_time_ms),
        "lease_expires_at": None if until_ms is None else shown_time(until_ms),
    }


def _details(topic: Topic, message: StoredMessage, life: MessageLife | None, media: Media) -> MessageDetails:
    groups = [each for each in (life.groups if life is not None else ()) if each.kind == "queue"]
    errors = [each.error for each in _events(life) if each.error]
    return MessageDetails(
        **_fields(topic, message, life),
        payload=payload(message.value, media),
        error_message=errors[-1] if errors else None,
        retry_count=max(0, max((each.attempts for each in groups), default=0) - 1),
        queue_config=options_of(topic),
        consumer_groups=[
            MessageGroup(name=each.group, status=_STATUS[each.state], attempts=each.attempts) for each in groups
        ],
    )


def _events(life: MessageLife | None) -> list[LifeEvent]:
    return [] if life is None else list(life.events)


def message_routes(broker: "Facade", queues: QueenQueues) -> Routes:
    routes, one = MessageRoutes(broker, queues), "/api/v1/messages/{partition_id}/{transaction}"
    unknown = (MessageNotFound,)
    return {
        "/api/v1/messages": {
            "GET": queen_operation(routes.newest, "List the newest messages", ListedMessages, query=MessagesQuery)
        },
        "/api/v1/status/queues/{queue}/messages": {
            "GET": queen_operation(
                routes.newest, "List the newest messages of a queue", ListedMessages, query=MessagesQuery
            )
        },
        one: {
            "GET": queen_operation(routes.one, "A message, for each group", MessageDetails, errors=unknown),
            "DELETE": queen_operation(
                routes.delete, "Delete a dead letter", DeadLetterAction, errors=(*unknown, NotSupported)
            ),
        },
        f"{one}/retry": {
            "POST": queen_operation(
                routes.retry, "Send a dead letter back to its queue", DeadLetterAction, errors=unknown
            )
        },
    }
