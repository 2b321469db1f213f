"""Recurring schedules: add, list, describe, alter, run, remove."""

from typing import TYPE_CHECKING, Annotated, Any
from urllib.parse import unquote

import msgspec
from msgspec import UNSET, Meta, UnsetType

from quiver.gateways.http.field_notes import NAME, PRIORITY, needed, note
from quiver.gateways.http.media import Media
from quiver.gateways.http.operation import Handler, Operation, Routes
from quiver.gateways.http.request import Request
from quiver.gateways.http.response import Response
from quiver.gateways.http.routes.messages.incoming import Base64, MessageToPublish, Text, new_message
from quiver.gateways.http.routes.messages.message import message_response
from quiver.gateways.http.routes.topics.topics import DeletedResponse, ListQuery
from quiver.model.errors import (
    InvalidName,
    InvalidRequest,
    MessageTooLarge,
    ScheduleExists,
    ScheduleNotFound,
    TopicNotFound,
)
from quiver.model.message import NewMessage, StoredMessage
from quiver.model.names import check_name
from quiver.model.priority import NAMES
from quiver.model.schedule import Schedule, ScheduleChanges
from quiver.model.times import format_time
from quiver.schedules.state import ScheduleState
from quiver.schedules.timetable import coming_times

if TYPE_CHECKING:
    from quiver.routing.facade import Facade

_ABSENT = msgspec.Raw()
_NEXT_RUNS = 5
_CONTENT = ("value", "value_base64", "tombstone", "key", "key_base64", "headers", "headers_base64")


def _absent() -> msgspec.Raw:
    return _ABSENT


_CRON = "Five fields, six with seconds in front, @daily and the like, or @every 30s."


class AlterScheduleRequest(msgspec.Struct, kw_only=True):
    """What is absent keeps its value. Value, key and headers are those of a message."""

    cron: Annotated[str | None, Meta(description=_CRON)] = None
    timezone: Annotated[str | None, Meta(description="Such as Europe/Berlin; UTC if it is never given.")] = None
    topic: Annotated[str | None, note(**NAME)] = None
    value: Text = msgspec.field(default_factory=_absent)
    value_base64: Base64 = None
    tombstone: Annotated[bool | None, Meta(description="True sends a null value.")] = None
    key: Text = msgspec.field(default_factory=_absent)
    key_base64: Base64 = None
    headers: dict[str, str | None] | None = None
    headers_base64: dict[str, str | None] | None = None
    priority: Annotated[str | int | None, note(f"{', '.join(NAMES)}, or 0 to 4.", **PRIORITY)] = None
    paused: bool | None = None

    def has_value(self, media: Media) -> bool:
        given = self.value is not _ABSENT and media.text_of(self.value) is not None
        return given or self.value_base64 is not None or bool(self.tombstone)

    def message(self, media: Media) -> NewMessage:
        """The message it sends; without a value, a tombstone."""
        given = {name: value for name in _CONTENT if (value := getattr(self, name)) is not _ABSENT}
        if not self.has_value(media):
            given["tombstone"] = True
        return new_message(MessageToPublish(**given, priority=self.priority), media, 0)

    def changes(self, media: Media) -> ScheduleChanges:
        message = self.message(media)
        has_headers = self.headers is not None or self.headers_base64 is not None
        return ScheduleChanges(
            cron=UNSET if self.cron is None else self.cron,
            timezone=UNSET if self.timezone is None else self.timezone,
            topic=UNSET if self.topic is None else self.topic,
            value=message.value if self.has_value(media) else UNSET,
            key=UNSET if message.key is None else message.key,
            headers=message.headers or {} if has_headers else UNSET,
            priority=UNSET if self.priority is None else message.priority,
            is_paused=UNSET if self.paused is None else self.paused,
        )


class AddScheduleRequest(AlterScheduleRequest, kw_only=True):
    """cron, topic and one of value, value_base64 or tombstone are needed."""

    cron: Annotated[str | None, needed(_CRON)] = None
    topic: Annotated[str | None, needed(**NAME)] = None
    name: Annotated[str | None, note("Made up when absent.", **NAME)] = None

    def schedule(self, media: Media) -> Schedule:
        if self.cron is None or self.topic is None:
            raise InvalidRequest(problem='the body needs "cron", such as */5 * * * *, and "topic"')
        if not self.has_value(media):
            raise InvalidRequest(problem="a schedule needs value, value_base64 or tombstone: true")
        message = self.message(media)
        return Schedule(
            name="" if self.name is None else check_name(self.name, "schedule"),
            cron=self.cron,
            timezone="UTC" if self.timezone is None else self.timezone,
            topic=self.topic,
            value=message.value,
            key=message.key,
            headers=message.headers or {},
            priority=message.priority,
            is_paused=bool(self.paused),
        )


class ScheduleResponse(msgspec.Struct, kw_only=True):
    """`value` when the bytes are UTF-8, `value_base64` otherwise; key and headers likewise."""

    name: str
    cron: str
    timezone: str
    topic: str
    priority: str
    paused: bool
    created_at: str
    next_run: Annotated[str | None, Meta(description="Null while it is paused.")]
    last_run: Annotated[str | None, Meta(description="The time its last firing was due at.")]
    fired_count: int
    error: Annotated[str | UnsetType, Meta(description="Why its last firing has sent nothing.")] = UNSET
    next_runs: Annotated[
        list[str] | UnsetType, Meta(description="The next five, when one schedule is asked for.")
    ] = UNSET
    key: str | UnsetType = UNSET
    key_base64: str | UnsetType = UNSET
    value: str | UnsetType | None = UNSET
    value_base64: str | UnsetType = UNSET
    tombstone: bool | UnsetType = UNSET
    headers: dict[str, str] | UnsetType = UNSET
    headers_base64: dict[str, str] | UnsetType = UNSET


class ScheduleListResponse(msgspec.Struct, kw_only=True):
    """All schedules by name; with `limit` a page of them, and next_skip while there are more."""

    schedules: list[ScheduleResponse]
    count: int
    next_skip: int | UnsetType = UNSET


class ScheduleRoutes:
    def __init__(self, broker: "Facade") -> None:
        self._broker = broker

    async def list(self, request: Request) -> Response:
        query = request.query(ListQuery)
        states = await self._broker.schedules.list()
        end = len(states) if query.limit is None else query.skip + query.limit
        return Response(
            ScheduleListResponse(
                schedules=[_response(state) for state in states[query.skip : end]],
                count=len(states),
                next_skip=end if end < len(states) else UNSET,
            )
        )

    async def add(self, request: Request) -> Response:
        wanted = await request.body(AddScheduleRequest)
        return Response(_response(await self._broker.schedules.add(wanted.schedule(request.media))), 201)

    async def describe(self, request: Request) -> Response:
        state = await self._broker.schedules.get(_name_of(request))
        response = _response(state)
        response.next_runs = [
            format_time(time_ms) for time_ms in coming_times(state.schedule, state.next_ms, _NEXT_RUNS)
        ]
        return Response(response)

    async def alter(self, request: Request) -> Response:
        name = _name_of(request)
        wanted = await request.body(AlterScheduleRequest)
        return Response(_response(await self._broker.schedules.alter(name, wanted.changes(request.media))))

    async def run(self, request: Request) -> Response:
        return Response(_response(await self._broker.schedules.run(_name_of(request))))

    async def remove(self, request: Request) -> Response:
        name = _name_of(request)
        await self._broker.schedules.remove(name)
        return Response(DeletedResponse(name))


def _name_of(request: Request) -> str:
    return check_name(unquote(request.params["schedule"]), "schedule")


def _response(state: ScheduleState) -> ScheduleResponse:
    schedule = state.schedule
    content = message_response(
        StoredMessage(
            partition=0,
            offset=0,
            timestamp_ms=0,
            append_time_ms=0,
            key=schedule.key,
            value=schedule.value,
            headers=schedule.headers,
            priority=schedule.priority,
        )
    )
    return ScheduleResponse(
        name=schedule.name,
        cron=schedule.cron,
        timezone=schedule.timezone,
        topic=schedule.topic,
        priority=NAMES[schedule.priority],
        paused=schedule.is_paused,
        created_at=format_time(schedule.created_at_ms),
        next_run=None if state.next_ms is None else format_time(state.next_ms),
        last_run=None if state.last_ms is None else format_time(state.last_ms),
        fired_count=state.fired_count,
        error=state.error or UNSET,
        **{name: getattr(content, name) for name in _CONTENT},
    )


def schedule_routes(broker: "Facade") -> Routes:
    routes, known = ScheduleRoutes(broker), (InvalidName, ScheduleNotFound)
    bad = (InvalidRequest, InvalidName, TopicNotFound, MessageTooLarge)

    def operation(handler: Handler, summary: str, response: Any, **more: Any) -> Operation:
        return Operation(handler=handler, summary=summary, tag="Schedules", response=response, **more)

    return {
        "/schedules": {
            "GET": operation(routes.list, "List recurring schedules", ScheduleListResponse, query=ListQuery),
            "POST": operation(
                routes.add,
                "Send a message at recurring times",
                ScheduleResponse,
                body=AddScheduleRequest,
                example={"name": "nightly", "cron": "0 3 * * *", "timezone": "Europe/Berlin", "topic": "jobs"}
                | {"value": {"job": "cleanup"}},
                status=201,
                errors=(*bad, ScheduleExists),
            ),
        },
        "/schedules/{schedule}": {
            "GET": operation(routes.describe, "Describe a schedule", ScheduleResponse, errors=known),
            "PATCH": operation(
                routes.alter,
                "Change, pause or resume a schedule",
                ScheduleResponse,
                body=AlterScheduleRequest,
                example={"paused": True},
                errors=(*bad, ScheduleNotFound),
            ),
            "DELETE": operation(routes.remove, "Remove a schedule", DeletedResponse, errors=known),
        },
        "/schedules/{schedule}/run": {
            "POST": operation(
                routes.run, "Send its message now, once", ScheduleResponse, errors=(*known, TopicNotFound)
            )
        },
    }
