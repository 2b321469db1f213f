"""Compaction by hand."""

from typing import TYPE_CHECKING, Annotated

import msgspec
from msgspec import Meta

from quiver.gateways.http.field_notes import note
from quiver.gateways.http.operation import Operation, Routes
from quiver.gateways.http.request import Request
from quiver.gateways.http.response import Response
from quiver.model.errors import InvalidName, InvalidRequest, PartitionNotFound, TopicNotFound

if TYPE_CHECKING:
    from quiver.routing.facade import Facade


class CompactRequest(msgspec.Struct, kw_only=True):
    partitions: Annotated[
        list[Annotated[int, note(minimum=0)]] | None, Meta(description="All of them when absent.")
    ] = None
    dry_run: Annotated[bool, Meta(description="Only count; nothing changes.")] = False


class CompactedPartitionResponse(msgspec.Struct, kw_only=True):
    records_before: int
    records_after: int
    dirty_ratio: float


class CompactedResponse(msgspec.Struct, kw_only=True):
    name: str
    records_before: int
    records_after: int
    dirty_ratio: Annotated[float, Meta(description="The share of bytes that had never been compacted.")]
    dry_run: bool
    partitions: dict[str, CompactedPartitionResponse]


class CompactionRoutes:
    def __init__(self, broker: "Facade") -> None:
        self._broker = broker

    async def compact(self, request: Request) -> Response:
        name = request.topic()
        wanted = await request.body(CompactRequest)
        done = await self._broker.compact_topic(name, wanted.partitions, dry_run=wanted.dry_run)
        return Response(
            CompactedResponse(
                name=name,
                records_before=done.records_before,
                records_after=done.records_after,
                dirty_ratio=done.dirty_ratio,
                dry_run=wanted.dry_run,
                partitions={
                    str(number): CompactedPartitionResponse(
                        records_before=each.records_before,
                        records_after=each.records_after,
                        dirty_ratio=each.dirty_ratio,
                    )
                    for number, each in done.partitions.items()
                },
            )
        )


def compaction_routes(broker: "Facade") -> Routes:
    operation = Operation(
        handler=CompactionRoutes(broker).compact,
        summary="Compact a topic now, the active segments included",
        tag="Topics",
        response=CompactedResponse,
        body=CompactRequest,
        example={"dry_run": True},
        errors=(InvalidRequest, InvalidName, TopicNotFound, PartitionNotFound),
    )
    return {"/admin/topics/{topic}/compact": {"POST": operation}}
