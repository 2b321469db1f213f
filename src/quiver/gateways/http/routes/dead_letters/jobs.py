"""Redrives as jobs, and dead letters grouped by error."""

from typing import TYPE_CHECKING, Annotated
from urllib.parse import unquote

import msgspec
from msgspec import Meta

from quiver.dead_letters.error_shapes import ErrorGroup
from quiver.dead_letters.redrive_jobs import JobProgress
from quiver.gateways.http.operation import Operation, Routes
from quiver.gateways.http.request import Request
from quiver.gateways.http.response import Response
from quiver.model.dead_letter import dead_letter_topic
from quiver.model.errors import InvalidName, InvalidRequest, JobNotFound, TopicNotFound
from quiver.model.times import format_time

if TYPE_CHECKING:
    from quiver.routing.facade import Facade

_LOOKED_AT = 100_000


class JobResponse(msgspec.Struct, kw_only=True):
    """A redrive that goes on by itself. It covers the dead letters that there were at its beginning."""

    id: str
    kind: str
    topic: str
    to: Annotated[str | None, Meta(description="Null: back to where each came from.")]
    rate: Annotated[float | None, Meta(description="Dead letters per second.")]
    state: Annotated[str, Meta(description="running, done, cancelled or failed.")]
    moved: int
    total: Annotated[int | None, Meta(description="Null until they are counted.")]
    error: str | None
    started_at: str
    ended_at: str | None


class JobsResponse(msgspec.Struct):
    """The newest first, also those that have ended, since the broker was started: at most a hundred."""

    jobs: list[JobResponse]


class ErrorGroupResponse(msgspec.Struct, kw_only=True):
    shape: Annotated[str, Meta(description="The error; numbers, identifiers and quoted parts are replaced.")]
    reason: str | None
    group: str | None
    count: int
    first: str
    last: str
    example: Annotated[str | None, Meta(description="The error of the last one.")]
    example_id: str


class ErrorsResponse(msgspec.Struct, kw_only=True):
    """Those with the most dead letters first."""

    errors: list[ErrorGroupResponse]
    looked_at: int
    is_complete: Annotated[bool, Meta(description="False: only the newest 100,000 dead letters were looked at.")]
    dlq_topic: str


class JobRoutes:
    def __init__(self, broker: "Facade") -> None:
        self._broker = broker

    async def list(self, request: Request) -> Response:
        return Response(JobsResponse([job_response(job) for job in await self._broker.redrive_jobs.list()]))

    async def get(self, request: Request) -> Response:
        return Response(job_response(await self._broker.redrive_jobs.get(_id(request))))

    async def cancel(self, request: Request) -> Response:
        return Response(job_response(await self._broker.redrive_jobs.cancel(_id(request))))

    async def errors(self, request: Request) -> Response:
        topic = request.topic()
        found = await self._broker.dead_letters.errors(topic, limit=_LOOKED_AT)
        return Response(
            ErrorsResponse(
                errors=[_error(group) for group in found.groups],
                looked_at=found.looked_at,
                is_complete=found.is_complete,
                dlq_topic=dead_letter_topic(topic),
            )
        )


def _id(request: Request) -> str:
    return unquote(request.params["job"])[:100]


def job_response(job: JobProgress) -> JobResponse:
    return JobResponse(
        id=job.id,
        kind="redrive",
        topic=job.plan.topic,
        to=job.plan.to,
        rate=job.plan.rate,
        state=job.state,
        moved=job.moved,
        total=job.total,
        error=job.error,
        started_at=format_time(job.started_at_ms),
        ended_at=None if job.ended_at_ms is None else format_time(job.ended_at_ms),
    )


def _error(group: ErrorGroup) -> ErrorGroupResponse:
    return ErrorGroupResponse(
        shape=group.shape,
        reason=group.reason or None,
        group=group.group or None,
        count=group.dead_letter_count,
        first=format_time(group.first_ms),
        last=format_time(group.last_ms),
        example=group.example or None,
        example_id=str(group.example_id),
    )


def job_routes(broker: "Facade") -> Routes:
    routes = JobRoutes(broker)
    return {
        "/jobs": {
            "GET": Operation(handler=routes.list, summary="List redrives", tag="Dead letters", response=JobsResponse)
        },
        "/jobs/{job}": {
            "GET": Operation(
                handler=routes.get,
                summary="The progress of a redrive",
                tag="Dead letters",
                response=JobResponse,
                errors=(JobNotFound,),
            ),
            "DELETE": Operation(
                handler=routes.cancel,
                summary="Cancel a redrive; what it has moved stays moved",
                tag="Dead letters",
                response=JobResponse,
                errors=(JobNotFound,),
            ),
        },
        "/topics/{topic}/dlq/errors": {
            "GET": Operation(
                handler=routes.errors,
                summary="Dead letters of a topic, grouped by the shape of their error",
                tag="Dead letters",
                response=ErrorsResponse,
                errors=(InvalidRequest, InvalidName, TopicNotFound),
            )
        },
    }
