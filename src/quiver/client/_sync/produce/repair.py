# Generated from quiver/client/_async by scripts/unasync.py: do not edit.
"""What a producer asks for before it can send: an identity, and where messages go whose topic has changed."""

from quiver.client._sync.connection.reconnecting import ReconnectingConnection, unexpected
from quiver.client._sync.produce.topic_cache import TopicCache
from quiver.client.produce.batches.batch_router import BatchRouter
from quiver.client.produce.batches.in_flight import InFlightBatches
from quiver.model.errors import TopicNotFound, error_from_wire
from quiver.protocol.messages import Failure, InitProducer, ProducerIdentity, TopicInfo


def new_identity(broker: ReconnectingConnection, request: InitProducer, timeout: float) -> tuple[int, int]:
    """The id and the epoch that batches are sent under."""
    deadline = broker.clock.monotonic() + timeout
    connection = broker.connection(timeout)
    answer = (connection.call(request, max(0.001, deadline - broker.clock.monotonic()))).answer
    if isinstance(answer, ProducerIdentity):
        return answer.producer_id, answer.epoch
    if isinstance(answer, Failure):
        raise error_from_wire(answer.code, answer.message, answer.retryable)
    raise unexpected(answer)


def begin_epochs(broker: ReconnectingConnection, in_flight: InFlightBatches, timeout: float) -> None:
    """Queues whose sequence numbers cannot be repaired begin again at 0, in a new epoch."""
    for queue in in_flight.wanting_epoch():
        in_flight.begin_epoch(queue, new_identity(broker, InitProducer(*queue.identity), timeout))


def reroute(
    topics: TopicCache, known: TopicInfo, in_flight: InFlightBatches, router: BatchRouter, timeout: float
) -> TopicInfo:
    """Routes again what was refused because the topic has changed, and what waits and was hashed like it."""
    missing: TopicNotFound | None = None
    topic = known
    try:
        topic = topics.reload(timeout)
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
