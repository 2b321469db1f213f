"""Topics: create, list, describe, alter, purge, delete, add partitions."""

from typing import TYPE_CHECKING, Annotated, Any

import msgspec
from msgspec import UNSET, Meta, UnsetType

from quiver.gateways.http.field_notes import NAME, SETTING, needed, note, one_of
from quiver.gateways.http.operation import Handler, Operation, Routes
from quiver.gateways.http.request import Request
from quiver.gateways.http.response import Response
from quiver.gateways.http.routes.queues.settings import QueueSettingsBody
from quiver.gateways.http.routes.topics.topic_list import TopicListQuery, TopicListResponse, TopicListRoute
from quiver.model.errors import InvalidName, InvalidRequest, InvalidSetting, TopicExists, TopicNotFound
from quiver.model.times import format_time
from quiver.model.topic import SETTING_NAMES, Cleanup, Durability, Topic, settings_that_differ
from quiver.system.pace import paced

if TYPE_CHECKING:
    from quiver.routing.facade import Facade

Duration = Annotated[str | int | float | None, Meta(description="Such as 30s or 7d, or seconds; none: no limit.")]
Size = Annotated[str | int | None, Meta(description="Bytes, or with a unit such as 64KiB or 10GiB.")]
SizeLimit = Annotated[str | int | None, Meta(description="Bytes, or with a unit such as 10GiB; none: no limit.")]
_NO_LIMIT = "none"


_PARTITIONS = note(minimum=1, maximum=10_000)


class TopicSettings(QueueSettingsBody, kw_only=True):
    """What is absent keeps its value. Settings of queues hold for groups that have none of their own."""

    num_partitions: Annotated[int | None, _PARTITIONS] = None
    partitions: Annotated[int | None, _PARTITIONS] = None
    retention_hours: Annotated[float | None, note(minimum=0)] = None
    retention: Duration = None
    retention_bytes: SizeLimit = None
    segment_bytes: Size = None
    durability: Annotated[str | None, note(**one_of(Durability))] = None
    cleanup: Annotated[str | None, note(**one_of(Cleanup))] = None
    tombstone_retention: Annotated[
        str | int | float | None, note("How long compaction keeps tombstones, such as 24h.", **SETTING)
    ] = None
    dedup_window: Annotated[
        str | int | float | None, note("How long message ids are remembered, such as 10m; 0: not at all.", **SETTING)
    ] = None
    max_message_bytes: SizeLimit = None
    ttl: Duration = None
    settled_retention: Duration = None
    priority_weights: Annotated[
        list[Annotated[int, note(minimum=1, maximum=1000)]] | None,
        note("Five, from critical to background.", minItems=5, maxItems=5),
    ] = None
    replication_factor: Annotated[
        int | None, note("Replicas: what the cluster has of everything, 1 without one.", minimum=1)
    ] = None
    min_isr: Annotated[
        int | None,
        note("How many replicas must be in sync for a message to be taken: from that of the cluster on.", minimum=1),
    ] = None
    labels: Annotated[
        dict[str, str] | None,
        note("At most 32 notes about the topic, each of 1 KiB; they replace those that it has.", maxProperties=32),
    ] = None

    def given(self) -> dict[str, Any]:
        """The settings that are present, by the names the broker knows."""
        settings = {name: value for name in SETTING_NAMES if (value := getattr(self, name, None)) is not None}
        for name in ("retention", "retention_bytes", "max_message_bytes", "ttl", "settled_retention"):
            if settings.get(name) == _NO_LIMIT:
                settings[name] = None
        count = self.num_partitions
        if count is not None and settings.setdefault("partitions", count) != count:
            raise InvalidRequest(problem="num_partitions and partitions disagree; send one of them")
        if self.retention_hours is not None:
            if "retention" in settings:
                raise InvalidRequest(problem="give retention_hours or retention, not both")
            settings["retention"] = self.retention_hours * 3600
        return settings


class CreateTopicRequest(TopicSettings, kw_only=True):
    name: Annotated[str | None, needed(**NAME)] = None
    exist_ok: Annotated[bool, Meta(description="An existing topic is not an error and stays as it is.")] = False


class CreatedTopicResponse(msgspec.Struct, kw_only=True):
    name: str
    partitions: int
    num_partitions: int
    created: bool = True
    differs: Annotated[
        list[str] | UnsetType, Meta(description="With exist_ok: settings in which the existing topic differs.")
    ] = UNSET


class ListQuery(msgspec.Struct, kw_only=True):
    limit: Annotated[int, Meta(ge=1)] | None = None
    skip: Annotated[int, Meta(ge=0)] = 0


class OffsetsResponse(msgspec.Struct):
    earliest: int
    latest: Annotated[int, Meta(description="The next offset to be written.")]
    size_bytes: int
    offline: Annotated[str | UnsetType, Meta(description="Why it takes no writes.")] = UNSET
    compacted_to: Annotated[int | UnsetType, Meta(description="Below this offset each key occurs once.")] = UNSET


class TopicResponse(msgspec.Struct, kw_only=True):
    name: str
    partitions: int
    num_partitions: int
    created_at: str
    total_messages: Annotated[int, Meta(description="Stored messages; compaction leaves gaps in the offsets.")]
    total_size_bytes: int
    partition_offsets: dict[str, OffsetsResponse]
    config: dict[str, Any]


class DeletedResponse(msgspec.Struct):
    name: str
    deleted: bool = True


class PurgedResponse(msgspec.Struct):
    name: str
    purged: bool = True


class AddPartitionsRequest(msgspec.Struct):
    count: Annotated[int | None, needed("The new total.", minimum=1, maximum=10_000)] = None


class AddedPartitionsResponse(msgspec.Struct, kw_only=True):
    success: bool = True
    topic_name: str
    old_partition_count: int
    new_partition_count: int
    partitions_added: Annotated[list[int], Meta(description="The numbers of the new ones.")]


class TopicRoutes:
    def __init__(self, broker: "Facade") -> None:
        self._broker = broker

    async def create(self, request: Request) -> Response:
        wanted = await request.body(CreateTopicRequest)
        if wanted.name is None:
            raise InvalidRequest(problem='the body needs "name": the name of the topic')
        settings = wanted.given()
        try:
            topic = await self._broker.create_topic(wanted.name, settings)
        except TopicExists:
            if not wanted.exist_ok:
                raise
            return Response(_existing(self._broker.topic(wanted.name), settings))
        count = topic.config.partitions
        return Response(CreatedTopicResponse(name=topic.name, partitions=count, num_partitions=count), 201)

    async def describe(self, request: Request) -> Response:
        return Response(await self._description(request.topic()))

    async def alter(self, request: Request) -> Response:
        name = request.topic()
        wanted = await request.body(TopicSettings)
        await self._broker.alter_topic(name, wanted.given())
        return Response(await self._description(name))

    async def delete(self, request: Request) -> Response:
        name = request.topic()
        await self._broker.delete_topic(name)
        return Response(DeletedResponse(name))

    async def purge(self, request: Request) -> Response:
        name = request.topic()
        await self._broker.purge_topic(name)
        return Response(PurgedResponse(name))

    async def add_partitions(self, request: Request) -> Response:
        name = request.topic()
        wanted = await request.body(AddPartitionsRequest)
        if wanted.count is None:
            raise InvalidRequest(problem='the body needs "count": the new number of partitions')
        old, new = await self._broker.add_partitions(name, wanted.count)
        return Response(
            AddedPartitionsResponse(
                topic_name=name,
                old_partition_count=old,
                new_partition_count=new,
                partitions_added=list(range(old, new)),
            )
        )

    async def _description(self, name: str) -> TopicResponse:
        details = await self._broker.describe(name)
        config = details.topic.config
        return TopicResponse(
            name=details.topic.name,
            partitions=config.partitions,
            num_partitions=config.partitions,
            created_at=format_time(details.topic.created_at_ms),
            total_messages=details.message_count,
            total_size_bytes=details.size_bytes,
            partition_offsets={
                str(p.partition): OffsetsResponse(
                    p.start_offset,
                    p.end_offset,
                    p.size_bytes,
                    UNSET if p.offline is None else p.offline,
                    UNSET if p.compacted_to is None else p.compacted_to,
                )
                async for p in paced(details.partitions)
            },
            config=config.settings(),
        )


def _existing(topic: Topic, settings: dict[str, Any]) -> CreatedTopicResponse:
    count = topic.config.partitions
    differences = settings_that_differ(topic.config.settings(), settings)
    return CreatedTopicResponse(
        name=topic.name, partitions=count, num_partitions=count, created=False, differs=differences or UNSET
    )


def topic_routes(broker: "Facade") -> Routes:
    routes, known = TopicRoutes(broker), (InvalidName, TopicNotFound)

    def operation(handler: Handler, summary: str, response: Any, **more: Any) -> Operation:
        return Operation(handler=handler, summary=summary, tag="Topics", response=response, **more)

    return {
        "/topics": {
            "GET": operation(TopicListRoute(broker).all, "List topics", TopicListResponse, query=TopicListQuery),
            "POST": operation(
                routes.create,
                "Create a topic",
                CreatedTopicResponse,
                body=CreateTopicRequest,
                example={"name": "orders", "partitions": 6, "retention": "7d"},
                status=201,
                other_status=200,
                errors=(InvalidRequest, InvalidName, InvalidSetting, TopicExists),
            ),
        },
        "/topics/{topic}": {
            "GET": operation(routes.describe, "Describe a topic", TopicResponse, errors=known),
            "PATCH": operation(
                routes.alter,
                "Change the settings of a topic",
                TopicResponse,
                body=TopicSettings,
                example={"retention": "24h"},
                errors=(InvalidRequest, InvalidSetting, *known),
            ),
            "DELETE": operation(routes.delete, "Delete a topic and its messages", DeletedResponse, errors=known),
        },
        "/topics/{topic}/purge": {
            "POST": operation(routes.purge, "Remove all messages of a topic", PurgedResponse, errors=known)
        },
        "/admin/topics/{topic}/partitions": {
            "POST": operation(
                routes.add_partitions,
                "Add partitions; keys move, because they are hashed by the new count",
                AddedPartitionsResponse,
                body=AddPartitionsRequest,
                example={"count": 12},
                errors=(InvalidRequest, InvalidSetting, *known),
            )
        },
    }
