"""Reassignments: other replicas for units. A partition's reassignment moves its unit, with all partitions in it."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
from msgspec import Meta

from quiver.broker.members import ReassignmentOptions
from quiver.gateways.http.field_notes import needed, note
from quiver.gateways.http.operation import Operation, Routes
from quiver.gateways.http.request import Request
from quiver.gateways.http.response import Response
from quiver.model.errors import (
    InvalidName,
    InvalidRequest,
    NodeNotFound,
    NotSupported,
    PartitionNotFound,
    QuiverError,
    ReassignmentNotFound,
    TopicNotFound,
)
from quiver.model.numbers import HIGHEST, shown, whole_number
from quiver.model.times import format_time
from quiver.system.pace import paced

if TYPE_CHECKING:
    from quiver.broker.members import ReassignmentProgress, UnitMove
    from quiver.routing.facade import Facade

_SHOWN_PARTITIONS = 1_000
_LONGEST_SECONDS = 365 * 86_400
_NOTE = "A unit moves as a whole: with a partition move all other partitions of its unit."
Nodes = Annotated[list[str | int], Meta(description="Nodes, the preferred leader first.")]


class PartitionToReassign(msgspec.Struct, kw_only=True):
    topic: Annotated[str | None, needed()] = None
    partition: Annotated[int | None, needed(minimum=0)] = None
    new_replicas: Annotated[Nodes | None, needed()] = None


class UnitToReassign(msgspec.Struct, kw_only=True):
    unit: Annotated[int | None, needed(minimum=0)] = None
    new_replicas: Annotated[Nodes | None, needed()] = None


class ReassignmentRequest(msgspec.Struct, kw_only=True):
    """At least one partition or unit. A partition's reassignment moves its unit, with all partitions in it."""

    partitions: list[PartitionToReassign] | None = None
    units: list[UnitToReassign] | None = None
    dry_run: Annotated[bool, Meta(description="Only shows what would move.")] = False
    throttle_bytes_per_sec: Annotated[
        int | None, note("The most that the new replicas of each unit get per second.", minimum=1)
    ] = None
    timeout_per_partition_sec: Annotated[
        float | None, note("A unit whose new replicas are not in sync in this time goes back.", minimum=1)
    ] = None


class ReassignedPartitionResponse(msgspec.Struct):
    topic: str
    partition: int


class UnitMoveResponse(msgspec.Struct, kw_only=True):
    unit: int
    state: Annotated[
        str,
        Meta(description="planned, running, done, cancelled, timed_out, or replaced: it got another target."),
    ]
    old_replicas: Annotated[list[str], Meta(description="Where it goes back to when it is cancelled.")]
    new_replicas: list[str]
    replicas: Annotated[list[str], Meta(description="Now; while it goes on, with those that are being removed.")]
    isr: list[str]
    adding: list[str]
    removing: list[str]
    lag_bytes: Annotated[dict[str, int], Meta(description="Where the asked node leads: what each follower lacks.")]
    partition_count: Annotated[int, Meta(description="Partitions that move with it.")]
    partitions: Annotated[
        list[ReassignedPartitionResponse], Meta(description="At most 1,000 of them; none in a list of reassignments.")
    ]


class ReassignmentCountsResponse(msgspec.Struct, kw_only=True):
    units: int
    units_done: int
    partitions: int
    partitions_done: int
    percent: Annotated[int, Meta(description="Of the partitions.")]


class ReassignmentResponse(msgspec.Struct, kw_only=True):
    reassignment_id: Annotated[int | None, Meta(description="Null for a dry run.")]
    state: Annotated[
        str, Meta(description="planned (a dry run), running, done, timed_out, cancelled or replaced: see the units.")
    ]
    dry_run: bool
    progress: ReassignmentCountsResponse
    units: Annotated[list[UnitMoveResponse], Meta(description="The units that move.")]
    throttle_bytes_per_sec: int | None
    timeout_per_partition_sec: float | None
    started_at: str
    ended_at: str | None
    note: str = _NOTE


class ReassignmentsResponse(msgspec.Struct):
    """The newest first; the last 50."""

    reassignments: list[ReassignmentResponse]


class ReassignmentRoutes:
    def __init__(self, broker: "Facade") -> None:
        self._broker = broker

    async def begin(self, request: Request) -> Response:
        body = await request.body(ReassignmentRequest)
        targets = self._targets(body)
        progress = await self._broker.node.reassign(targets, _options(body), dry_run=body.dry_run)
        return Response(await self._shown(progress, dry_run=body.dry_run), 200 if body.dry_run else 202)

    async def all(self, request: Request) -> Response:
        counts = await self._partition_counts()
        found = self._broker.node.reassignments()
        return Response(ReassignmentsResponse([_response(each, counts, {}) for each in found]))

    async def get(self, request: Request) -> Response:
        return Response(await self._shown(self._broker.node.reassignment(_number(request))))

    async def cancel(self, request: Request) -> Response:
        return Response(await self._shown(await self._broker.node.cancel_reassignment(_number(request))))

    def _targets(self, body: ReassignmentRequest) -> dict[int, list[str]]:
        """By unit. Partitions of a unit must agree."""
        found: dict[int, list[str]] = {}
        for unit, wanted in [*self._units_of_partitions(body), *_units(body)]:
            nodes = [str(node) for node in wanted]
            if found.setdefault(unit, nodes) != nodes:
                raise InvalidRequest(
                    problem=f"unit {unit} is given different replicas; all its partitions move with it"
                )
        if not found:
            raise InvalidRequest(problem='the body needs "partitions" or "units": what gets which new_replicas')
        return found

    def _units_of_partitions(self, body: ReassignmentRequest) -> list[tuple[int, list[str | int]]]:
        found = []
        for each in body.partitions or ():
            if each.topic is None or each.partition is None or each.new_replicas is None:
                raise InvalidRequest(problem='each of "partitions" needs "topic", "partition" and "new_replicas"')
            units = self._broker.unit_workers(self._broker.topic(each.topic))
            if not 0 <= each.partition < len(units):
                raise PartitionNotFound(topic=each.topic, count=len(units), partition=each.partition)
            found.append((units[each.partition], each.new_replicas))
        return found

    async def _shown(self, progress: "ReassignmentProgress", *, dry_run: bool = False) -> ReassignmentResponse:
        moved: dict[int, list[ReassignedPartitionResponse]] = {move.worker: [] for move in progress.moves}
        counts = dict.fromkeys(moved, 0)
        async for topic in paced(self._broker.topics()):
            for partition, unit in enumerate(self._broker.unit_workers(topic)):
                if unit in moved:
                    counts[unit] += 1
                    if len(moved[unit]) < _SHOWN_PARTITIONS:
                        moved[unit].append(ReassignedPartitionResponse(topic.name, partition))
        return _response(progress, counts, moved, dry_run=dry_run)

    async def _partition_counts(self) -> dict[int, int]:
        counts: dict[int, int] = {}
        async for topic in paced(self._broker.topics()):
            for unit in self._broker.unit_workers(topic):
                counts[unit] = counts.get(unit, 0) + 1
        return counts


def _units(body: ReassignmentRequest) -> list[tuple[int, list[str | int]]]:
    found = []
    for each in body.units or ():
        if each.unit is None or each.new_replicas is None:
            raise InvalidRequest(problem='each of "units" needs "unit" and "new_replicas"')
        found.append((each.unit, each.new_replicas))
    return found


def _options(body: ReassignmentRequest) -> ReassignmentOptions:
    throttle, seconds = body.throttle_bytes_per_sec, body.timeout_per_partition_sec
    if throttle is not None and not 1 <= throttle <= HIGHEST:
        raise InvalidRequest(problem="throttle_bytes_per_sec must be at least 1; leave it out for no limit")
    if seconds is not None and not 1 <= seconds <= _LONGEST_SECONDS:
        raise InvalidRequest(problem="timeout_per_partition_sec must be from 1 to 31536000; leave it out for none")
    return ReassignmentOptions(throttle or 0, round((seconds or 0) * 1000))


def _number(request: Request) -> int:
    text = request.params["id"]
    number = whole_number(text)
    if number is None:
        raise ReassignmentNotFound(f"{shown(text)} is not the number of a reassignment", reassignment=text)
    return number


def _response(
    progress: "ReassignmentProgress",
    counts: Mapping[int, int],
    moved: Mapping[int, list[ReassignedPartitionResponse]],
    *,
    dry_run: bool = False,
) -> ReassignmentResponse:
    options, done = progress.options, [move.worker for move in progress.moves if move.state == "done"]
    partitions = sum(counts.get(move.worker, 0) for move in progress.moves)
    partitions_done = sum(counts.get(worker, 0) for worker in done)
    unit_count = len(progress.moves)
    return ReassignmentResponse(
        reassignment_id=None if dry_run else progress.number,
        state="planned" if dry_run else progress.state,
        dry_run=dry_run,
        progress=ReassignmentCountsResponse(
            units=unit_count,
            units_done=len(done),
            partitions=partitions,
            partitions_done=partitions_done,
            percent=100 * partitions_done // partitions if partitions else 100 * len(done) // max(1, unit_count),
        ),
        units=[
            _move(each, counts.get(each.worker, 0), moved.get(each.worker, []), dry_run=dry_run)
            for each in progress.moves
        ],
        throttle_bytes_per_sec=options.throttle_bytes_per_sec or None,
        timeout_per_partition_sec=options.timeout_ms / 1000 if options.timeout_ms else None,
        started_at=format_time(progress.started_ms),
        ended_at=format_time(progress.ended_ms) if progress.ended_ms else None,
    )


def _move(
    move: "UnitMove", count: int, partitions: list[ReassignedPartitionResponse], *, dry_run: bool
) -> UnitMoveResponse:
    now = move.replicas
    return UnitMoveResponse(
        unit=move.worker,
        state="planned" if dry_run else move.state,
        old_replicas=move.before,
        new_replicas=move.target,
        replicas=[] if now is None else now.replicas,
        isr=[] if now is None else now.isr,
        adding=[] if now is None else now.adding,
        removing=[] if now is None else now.removing,
        lag_bytes={} if now is None else now.lag_bytes,
        partition_count=count,
        partitions=partitions,
    )


def reassignment_routes(broker: "Facade") -> Routes:
    routes = ReassignmentRoutes(broker)

    def of_one(handler: Any, summary: str, *errors: type[QuiverError]) -> Operation:
        return Operation(
            handler=handler,
            summary=summary,
            tag="Cluster",
            response=ReassignmentResponse,
            errors=(ReassignmentNotFound, *errors),
        )

    return {
        "/admin/reassignment": {
            "GET": Operation(
                handler=routes.all, summary="List reassignments", tag="Cluster", response=ReassignmentsResponse
            ),
            "POST": Operation(
                handler=routes.begin,
                summary="Give partitions of a replicated cluster, and with them their units, other replicas",
                tag="Cluster",
                body=ReassignmentRequest,
                example={
                    "partitions": [{"topic": "orders", "partition": 0, "new_replicas": ["4", "2", "3"]}],
                    "dry_run": True,
                },
                response=ReassignmentResponse,
                status=202,
                other_status=200,
                errors=(InvalidRequest, InvalidName, TopicNotFound, PartitionNotFound, NodeNotFound, NotSupported),
            ),
        },
        "/admin/reassignment/{id}": {
            "GET": of_one(routes.get, "The progress of a reassignment"),
            "DELETE": of_one(routes.cancel, "Cancel a reassignment: units on their way go back", NotSupported),
        },
    }
