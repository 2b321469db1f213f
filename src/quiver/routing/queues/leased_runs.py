"""What a receive has leased, as it goes over a link."""

from collections.abc import Sequence

from quiver.links.request import Reply
from quiver.model.settlement import NACK, SettleRequest
from quiver.queues.partition.lease_issuer import DeliveredRun
from quiver.queues.receive import Received
from quiver.routing.queues.requests import LeasedRun
from quiver.topics.catalogue import TopicCatalogue


def leased_reply(received: Sequence[Received]) -> Reply[list[LeasedRun]]:
    runs = [LeasedRun(topic.id, visibility_ms, *run[:9], len(run.frame)) for topic, visibility_ms, run in received]
    return Reply(runs, tuple(one.run.frame for one in received))


def received_of(reply: Reply[list[LeasedRun]], catalogue: TopicCatalogue) -> list[Received]:
    """TopicNotFound when a topic was deleted meanwhile."""
    payload = memoryview(reply.payload[0]) if reply.payload else memoryview(b"")
    found, at = [], 0
    for leased in reply.value:
        frame = payload[at : at + leased.length]
        at += leased.length
        run = DeliveredRun(*leased[2:11], frame)
        found.append(Received(catalogue.topic_by_id(leased.topic_id), leased.visibility_ms, run))
    return found


def returned(runs: Sequence[LeasedRun]) -> list[SettleRequest]:
    """Settles them as if they had not been delivered."""
    return [
        SettleRequest(run.topic_id, run.partition, run.group_id, run.lease_id, NACK, [(run.start, run.end)], 0, False)
        for run in runs
    ]
