"""What a producer asks for before it can send: an identity, and where messages go whose topic has changed."""

from quiver.client._async.connection.reconnecting import AsyncReconnectingConnection, unexpected
from quiver.client._async.produce.topic_cache import AsyncTopicCache
from quiver.client.produce.batches.batch_router import BatchRouter
from quiver.client.produce.batches.in_flight import InFlightBatches
from quiver.model.errors import TopicNotFound, error_from_wire
from quiver.protocol.messages import Failure, InitProducer, ProducerIdentity, TopicInfo


async def new_identity(broker: AsyncReconnectingConnection, request: InitProducer, timeout: float) -> tuple[int, int]:
    """The id and the epoch that batches are sent under."""
    deadline = broker.clock.monotonic() + timeout
    connection = await broker.connection(timeout)
    answer = (await connection.call(request, max(0.001, deadline - broker.clock.monotonic()))).answer
    if isinstance(answer, ProducerIdentity):
        return answer.producer_id, answer.epoch
    if isinstance(answer, Failure):
        raise error_from_wire(answer.code, answer.message, answer.retryable)
    raise unexpected(answer)


async def begin_epochs(broker: AsyncReconnectingConnection, in_flight: InFlightBatches, timeout: float) -> None:
    """Queues whose sequence numbers cannot be repaired begin again at 0, in a new epoch."""
    for queue in in_flight.wanting_epoch():
        in_flight.begin_epoch(queue, await new_identity(broker, InitProducer(*queue.identity), timeout))


async def reroute(
    topics: AsyncTopicCache, known: TopicInfo, in_flight: InFlightBatches, router: BatchRouter, timeout: float
) -> TopicInfo:
    """Routes again what was refused because the topic has changed, and what waits and was hashed like it."""
    missing: TopicNotFound | None = None
    topic = known
    try:
        topic = await topics.reload(timeout)
    except TopicNotFound as error:
        missing = error
    is_new = topic.id != known.id
    for batch in in_flight.withdraw(is_new_topic=is_new or missing is not None):
        if missing is not None:
            router.fail(batch, missing)
        elif isinstance(batch.last_error, TopicNotFound) and not is_new:
            router.fail(batch, batch.last_error)
        else:
            router.place_again(batch, topic.partitions)
    return topic
