"""Requests about topics and producers, and pings."""

from collections.abc import Awaitable, Callable
from typing import Any

from quiver.broker.members import WorkerPlace
from quiver.model.errors import QuiverError, TopicNotFound
from quiver.model.topic import Topic
from quiver.protocol.compaction_messages import CompactedPartition, CompactedTopic, CompactTopic
from quiver.protocol.failure import failure_of
from quiver.protocol.messages import (
    AddPartitions,
    AlterTopic,
    CreateTopic,
    DeleteTopic,
    DescribeTopic,
    Done,
    FoundOffset,
    GetMetadata,
    InitProducer,
    ListOffsets,
    Message,
    Metadata,
    NodeInfo,
    OffsetPart,
    Offsets,
    Ping,
    ProducerIdentity,
    PurgeTopic,
    TopicDescription,
    TopicInfo,
    UnitInfo,
)
from quiver.routing.facade import Facade
from quiver.system.pace import paced


async def _metadata(broker: Facade, request: GetMetadata) -> Message:
    missing: list[str] = []
    if request.topics is None:
        found = broker.topics()
    else:
        found = []
        for name in request.topics:
            await broker.ensure_topic(name)
            try:
                found.append(broker.topic(name))
            except TopicNotFound:
                missing.append(name)
    if not request.with_replicas:
        return Metadata([_info(broker, topic) for topic in found], missing)
    nodes, units = await _replicas(broker)
    return Metadata([_info(broker, topic, has_units=bool(units)) for topic in found], missing, nodes, units)


def _info(broker: Facade, topic: Topic, *, has_units: bool = False) -> TopicInfo:
    limits = broker.limits.for_messages(topic.config.max_message_bytes)
    workers, units = broker.partition_workers(topic), broker.unit_workers(topic) if has_units else ()
    return TopicInfo(topic.id, topic.name, topic.config.partitions, limits.message_bytes, workers, units)


async def _replicas(broker: Facade) -> tuple[tuple[NodeInfo, ...], dict[int, UnitInfo]]:
    members = await broker.node.nodes()
    known = () if members is None else members.nodes
    nodes = [
        NodeInfo(each.node, each.host, each.native_port, each.http_port, each.rack) for each in known if each.pid
    ]
    return tuple(nodes), {place.worker: _unit(place) for place in broker.node.places()}


def _unit(place: WorkerPlace) -> UnitInfo:
    """Of brokers on one database, whoever runs a worker is the only one that serves it."""
    replicas = place.replicas
    if replicas is None:
        alone = (place.node,) if place.node else ()
        return UnitInfo(place.node, alone, alone)
    return UnitInfo(place.node, tuple(replicas.replicas), tuple(replicas.isr))


async def _list_offsets(broker: Facade, request: ListOffsets) -> Message:
    return Offsets([await _find_offset(broker, part, request.read_committed) async for part in paced(request.parts)])


async def _find_offset(broker: Facade, part: OffsetPart, read_committed: bool) -> FoundOffset:
    try:
        offset = await broker.find_offset(part.topic_id, part.partition, part.position, read_committed=read_committed)
        return FoundOffset(offset)
    except QuiverError as error:
        return FoundOffset(-1, failure_of(error))


async def _init_producer(broker: Facade, request: InitProducer) -> Message:
    return ProducerIdentity(*await broker.init_producer(request.producer_id, request.epoch))


async def _create_topic(broker: Facade, request: CreateTopic) -> Message:
    await broker.create_topic(request.name, request.settings)
    return await _description(broker, request.name)


async def _alter_topic(broker: Facade, request: AlterTopic) -> Message:
    await broker.alter_topic(request.name, request.settings)
    return await _description(broker, request.name)


async def _add_partitions(broker: Facade, request: AddPartitions) -> Message:
    await broker.add_partitions(request.name, request.count)
    return await _description(broker, request.name)


async def _describe_topic(broker: Facade, request: DescribeTopic) -> Message:
    return await _description(broker, request.name)


async def _description(broker: Facade, name: str) -> TopicDescription:
    details = await broker.describe(name)
    topic = details.topic
    return TopicDescription(
        topic.id,
        topic.name,
        topic.created_at_ms,
        topic.config.settings(),
        details.size_bytes,
        [(part.start_offset, part.end_offset) for part in details.partitions],
        details.message_count,
        tuple(part.compacted_to for part in details.partitions if part.compacted_to is not None),
    )


async def _delete_topic(broker: Facade, request: DeleteTopic) -> Message:
    await broker.delete_topic(request.name)
    return Done()


async def _purge_topic(broker: Facade, request: PurgeTopic) -> Message:
    await broker.purge_topic(request.name)
    return Done()


async def _compact(broker: Facade, request: CompactTopic) -> Message:
    done = await broker.compact_topic(request.name, request.partitions, dry_run=request.dry_run)
    return CompactedTopic(
        done.records_before,
        done.records_after,
        done.dirty_ratio,
        [
            CompactedPartition(number, each.records_before, each.records_after, each.dirty_ratio)
            for number, each in done.partitions.items()
        ],
        request.dry_run,
    )


async def _ping(broker: Facade, request: Ping) -> Message:
    return Done()


TOPIC_RESPONSES: dict[type[Message], Callable[[Facade, Any], Awaitable[Message]]] = {
    GetMetadata: _metadata,
    ListOffsets: _list_offsets,
    InitProducer: _init_producer,
    CreateTopic: _create_topic,
    DescribeTopic: _describe_topic,
    AlterTopic: _alter_topic,
    DeleteTopic: _delete_topic,
    AddPartitions: _add_partitions,
    PurgeTopic: _purge_topic,
    CompactTopic: _compact,
    Ping: _ping,
}
