"""The dead letters of a topic: list, redrive, purge."""

from typing import TYPE_CHECKING, Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from quiver.dead_letters.redrive_jobs import RedrivePlan
from quiver.dead_letters.search import Search
from quiver.dead_letters.taking import DeadLettersTaken
from quiver.gateways.http.field_notes import NAME, note
from quiver.gateways.http.operation import Operation, Routes
from quiver.gateways.http.request import Request
from quiver.gateways.http.response import Response, StreamedResponse
from quiver.gateways.http.routes.dead_letters.responses import LettersResponse, page_response
from quiver.model.dead_letter import (
    DeadLetterFilter,
    dead_letter_topic,
    parse_dead_letter_cursor,
    parse_dead_letter_id,
)
from quiver.model.errors import InvalidName, InvalidRequest, PartitionOffline, TopicNotFound
from quiver.model.limits import LISTED_AT_ONCE
from quiver.model.names import check_name
from quiver.model.times import parse_time_ms

if TYPE_CHECKING:
    from quiver.routing.facade import Facade

_DEFAULT_LIMIT = 1000
_HIGHEST_RATE = 1_000_000


class LetterFields(msgspec.Struct, kw_only=True):
    """Dead letters that match every field given; without any, all of them."""

    group: Annotated[str | None, Meta(description="The group that gave the message up.")] = None
    reason: Annotated[str | None, Meta(description="max_attempts, rejected or expired.")] = None
    key: str | None = None
    contains: Annotated[str | None, Meta(description="Is in the value, or in the last error.")] = None
    from_time: Annotated[str | int | None, Meta(description="RFC 3339 or epoch milliseconds, by time of death.")] = (
        None
    )
    to_time: Annotated[str | int | None, Meta(description="RFC 3339 or epoch milliseconds, inclusive.")] = None
    partition: Annotated[int, Meta(ge=0)] | None = None


class LetterQuery(LetterFields, kw_only=True):
    limit: Annotated[int, Meta(ge=1, description="At most 10,000; a larger one counts as that.")] = _DEFAULT_LIMIT
    skip: Annotated[int, Meta(ge=0, description="How many of the matching ones to skip first.")] = 0
    after: Annotated[str | None, Meta(description="`next` of the page before.")] = None
    order: Annotated[Literal["oldest", "newest"], Meta(description="Which come first.")] = "oldest"
    ids: Annotated[str | None, Meta(description="Separated by commas.")] = None


class PurgeRequest(LetterFields, kw_only=True):
    """An empty one means all. The fields of the filter may also stand next to it."""

    ids: Annotated[list[str] | None, Meta(description="Only these dead letters: partition:offset.")] = None
    filter: LetterFields | None = None
    limit: Annotated[Annotated[int, Meta(ge=1)] | None, Meta(description="At most this many, the oldest first.")] = (
        None
    )
    dry_run: Annotated[bool | None, Meta(description="Only report what would be done.")] = None


class RedriveRequest(PurgeRequest, kw_only=True):
    """An empty one means all. The fields of the filter may also stand next to it."""

    to: Annotated[str | None, note("Send them to this topic instead of the one they came from.", **NAME)] = None
    job: Annotated[bool | None, Meta(description="Begin a job and return its id, for /jobs.")] = None
    rate: Annotated[float | None, note("Dead letters per second; makes it a job.", exclusiveMinimum=0)] = None


class TakenResponse(msgspec.Struct, kw_only=True):
    dlq_topic: str
    dry_run: bool
    count: int
    ids: Annotated[list[str], Meta(description="The first thousand.")]
    not_found: Annotated[list[str], Meta(description="Named by id, and not (or no longer) there.")]


class RedriveResponse(TakenResponse, kw_only=True):
    """Of a job, only its fields and the topic say something."""

    redriven: int
    id: Annotated[str | UnsetType, Meta(description="Of the job.")] = UNSET
    state: str | UnsetType = UNSET
    moved: int | UnsetType = UNSET
    total: int | UnsetType | None = UNSET


class PurgeResponse(TakenResponse, kw_only=True):
    purged: int


class DeadLetterRoutes:
    def __init__(self, broker: "Facade") -> None:
        self._broker = broker

    async def list(self, request: Request) -> Response | StreamedResponse:
        topic, query = request.topic(), request.query(LetterQuery)
        ids = None if query.ids is None else query.ids.split(",")
        after = None if query.after is None else parse_dead_letter_cursor(query.after)
        search = Search(_filter(query, ids), after, query.order == "newest")
        page = await self._broker.dead_letters.page(
            topic, search, limit=min(query.limit, LISTED_AT_ONCE), skip=query.skip
        )
        return page_response(request, page, dead_letter_topic(topic))

    async def redrive(self, request: Request) -> Response:
        topic, wanted = request.topic(), await request.body(RedriveRequest)
        to = None if wanted.to is None else check_name(wanted.to)
        if wanted.job or wanted.rate is not None:
            return await self._begin(topic, wanted, to)
        taken = await self._broker.dead_letters.redrive(
            topic, _search(wanted), limit=wanted.limit, to=to, dry_run=bool(wanted.dry_run)
        )
        return Response(RedriveResponse(redriven=taken.dead_letter_count, **_to_response(topic, wanted, taken)))

    async def _begin(self, topic: str, wanted: RedriveRequest, to: str | None) -> Response:
        if wanted.dry_run:
            raise InvalidRequest(problem="a dry run is not a job: leave out `job` and `rate`")
        if wanted.rate is not None and not 0 < wanted.rate <= _HIGHEST_RATE:
            raise InvalidRequest(problem=f"rate {wanted.rate:g} is not above 0 and at most {_HIGHEST_RATE:,}")
        plan = RedrivePlan(topic, _search(wanted), to, wanted.rate, wanted.limit)
        job = await self._broker.redrive_jobs.begin(plan)
        nothing = _to_response(topic, wanted, DeadLettersTaken(0, [], []))
        shown = RedriveResponse(redriven=0, **nothing)
        shown.id, shown.state, shown.moved, shown.total = job.id, job.state, job.moved, job.total
        return Response(shown)

    async def purge(self, request: Request) -> Response:
        topic, wanted = request.topic(), await request.body(PurgeRequest)
        taken = await self._broker.dead_letters.purge(
            topic, _search(wanted), limit=wanted.limit, dry_run=bool(wanted.dry_run)
        )
        return Response(PurgeResponse(purged=taken.dead_letter_count, **_to_response(topic, wanted, taken)))


def dead_letter_routes(broker: "Facade") -> Routes:
    routes = DeadLetterRoutes(broker)

    def operation(**more: Any) -> Operation:
        errors = (InvalidRequest, InvalidName, TopicNotFound, PartitionOffline)
        return Operation(tag="Dead letters", errors=errors, **more)

    return {
        "/topics/{topic}/dlq": {
            "GET": operation(
                handler=routes.list,
                summary="Dead letters of a topic",
                query=LetterQuery,
                response=LettersResponse,
            )
        },
        "/topics/{topic}/dlq/redrive": {
            "POST": operation(
                handler=routes.redrive,
                summary="Send dead letters back to where they came from",
                body=RedriveRequest,
                example={"reason": "max_attempts", "dry_run": True},
                response=RedriveResponse,
            )
        },
        "/topics/{topic}/dlq/purge": {
            "POST": operation(
                handler=routes.purge,
                summary="Remove dead letters permanently",
                body=PurgeRequest,
                example={"ids": ["0:42"], "dry_run": True},
                response=PurgeResponse,
            )
        },
    }


def _search(wanted: PurgeRequest) -> Search:
    fields: LetterFields = wanted
    if wanted.filter is not None:
        if any(getattr(wanted, name) is not None for name in LetterFields.__struct_fields__):
            raise InvalidRequest(problem='give the fields of "filter" there or beside it, not both')
        fields = wanted.filter
    return Search(_filter(fields, wanted.ids))


def _filter(fields: LetterFields, ids: list[str] | None) -> DeadLetterFilter:
    return DeadLetterFilter(
        ids=None if ids is None else [parse_dead_letter_id(text.strip()) for text in ids],
        partition=fields.partition,
        group=fields.group,
        reason=fields.reason,
        key=None if fields.key is None else fields.key.encode(),
        contains=None if fields.contains is None else fields.contains.encode(),
        from_time_ms=None if fields.from_time is None else parse_time_ms(fields.from_time, "from_time"),
        to_time_ms=None if fields.to_time is None else parse_time_ms(fields.to_time, "to_time"),
    )


def _to_response(topic: str, wanted: PurgeRequest, taken: DeadLettersTaken) -> dict[str, Any]:
    return {
        "dlq_topic": dead_letter_topic(topic),
        "dry_run": bool(wanted.dry_run),
        "count": taken.dead_letter_count,
        "ids": [str(id) for id in taken.ids],
        "not_found": [str(id) for id in taken.missing],
    }
