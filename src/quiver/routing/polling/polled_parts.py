"""What a member has polled, as it goes over a link."""

from collections.abc import Sequence

from quiver.links.request import Reply
from quiver.protocol.packet import Buffer
from quiver.queues.receive import Received
from quiver.routing.polling.requests import PolledPart, PolledParts
from quiver.routing.queues.leased_runs import leased_reply, received_of
from quiver.streams.owners.port import PolledPartition
from quiver.topics.catalogue import TopicCatalogue


def all_received(polled: Sequence[PolledPartition]) -> list[Received]:
    return [received for part in polled for received in part.received]


def polled_reply(polled: Sequence[PolledPartition]) -> Reply[PolledParts]:
    leased = leased_reply(all_received(polled))
    parts = [PolledPart(part.topic.id, part.partition, len(part.received), part.next_offset) for part in polled]
    return Reply(PolledParts(parts, leased.value), leased.payload)


def polled_of(polled: PolledParts, payload: tuple[Buffer, ...], catalogue: TopicCatalogue) -> list[PolledPartition]:
    """TopicNotFound when a topic was deleted meanwhile, with all leases in it."""
    received = iter(received_of(Reply(polled.runs, payload), catalogue))
    return [
        PolledPartition(
            catalogue.topic_by_id(part.topic_id),
            part.partition,
            [next(received) for _ in range(part.run_count)],
            part.next_offset,
        )
        for part in polled.parts
    ]
