"""What each request asks of the broker. Produce is not here: it is begun by the connection, in the order received."""

from collections.abc import Awaitable, Callable
from typing import Any

from quiver.broker.broker import Broker
from quiver.gateways.native.requests.compaction import COMPACTION_RESPONSES
from quiver.gateways.native.requests.dead_letters import DEAD_LETTER_RESPONSES
from quiver.gateways.native.requests.delays import DELAY_RESPONSES
from quiver.gateways.native.requests.groups import GROUP_RESPONSES
from quiver.gateways.native.requests.queues import QUEUE_RESPONSES
from quiver.gateways.native.requests.schedules import SCHEDULE_RESPONSES
from quiver.gateways.native.requests.transactions import TRANSACTION_RESPONSES
from quiver.model.errors import QuiverError, TopicNotFound
from quiver.model.topic import Topic
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
    OffsetPart,
    Offsets,
    Ping,
    ProducerIdentity,
    PurgeTopic,
    TopicDescription,
    TopicInfo,
)
from quiver.system.pace import paced


async def _metadata(broker: Broker, request: GetMetadata) -> Message:
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
    return Metadata([_info(broker, topic) for topic in found], missing)


def _info(broker: Broker, topic: Topic) -> TopicInfo:
    limits = broker.limits.for_messages(topic.config.max_message_bytes)
    return TopicInfo(topic.id, topic.name, topic.config.partitions, limits.message_bytes)


async def _list_offsets(broker: Broker, request: ListOffsets) -> Message:
    return Offsets([await _find_offset(broker, part, request.read_committed) async for part in paced(request.parts)])


async def _find_offset(broker: Broker, part: OffsetPart, read_committed: bool) -> FoundOffset:
    try:
        offset = await broker.find_offset(part.topic_id, part.partition, part.position, read_committed=read_committed)
        return FoundOffset(offset)
    except QuiverError as error:
        return FoundOffset(-1, failure_of(error))


async def _init_producer(broker: Broker, request: InitProducer) -> Message:
    return ProducerIdentity(*await broker.init_producer(request.producer_id, request.epoch))


async def _create_topic(broker: Broker, request: CreateTopic) -> Message:
    await broker.create_topic(request.name, request.settings)
    return await _description(broker, request.name)


async def _alter_topic(broker: Broker, request: AlterTopic) -> Message:
    await broker.alter_topic(request.name, request.settings)
    return await _description(broker, request.name)


async def _add_partitions(broker: Broker, request: AddPartitions) -> Message:
    await broker.add_partitions(request.name, request.count)
    return await _description(broker, request.name)


async def _describe_topic(broker: Broker, request: DescribeTopic) -> Message:
    return await _description(broker, request.name)


async def _description(broker: Broker, name: str) -> TopicDescription:
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


async def _delete_topic(broker: Broker, request: DeleteTopic) -> Message:
    await broker.delete_topic(request.name)
    return Done()


async def _purge_topic(broker: Broker, request: PurgeTopic) -> Message:
    await broker.purge_topic(request.name)
    return Done()


async def _ping(broker: Broker, request: Ping) -> Message:
    return Done()


_RESPONSES: dict[type[Message], Callable[[Broker, Any], Awaitable[Message]]] = {
    GetMetadata: _metadata,
    ListOffsets: _list_offsets,
    InitProducer: _init_producer,
    CreateTopic: _create_topic,
    DescribeTopic: _describe_topic,
    AlterTopic: _alter_topic,
    DeleteTopic: _delete_topic,
    AddPartitions: _add_partitions,
    PurgeTopic: _purge_topic,
    Ping: _ping,
    **GROUP_RESPONSES,
    **QUEUE_RESPONSES,
    **SCHEDULE_RESPONSES,
    **DEAD_LETTER_RESPONSES,
    **DELAY_RESPONSES,
    **TRANSACTION_RESPONSES,
    **COMPACTION_RESPONSES,
}


async def response_request(broker: Broker, request: Message) -> Message:
    """The response to any request but Hello, Produce, Fetch and Receive; raises QuiverError."""
    return await _RESPONSES[type(request)](broker, request)
