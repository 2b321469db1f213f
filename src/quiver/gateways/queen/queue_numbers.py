"""How many messages a queue has, and how many of them wait or are being processed."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from quiver.gateways.queen.partition_index import PartitionIndex
from quiver.gateways.queen.queues import QUEUE_MODE
from quiver.model.topic import Topic

if TYPE_CHECKING:
    from quiver.queues.depth import QueueDepth
    from quiver.routing.facade import Facade


class QueueNumbers(NamedTuple):
    total: int
    pending: int
    processing: int
    dead: int
    size_bytes: int
    oldest_age_ms: int
    """Of the oldest message that is not settled."""
    partitions: dict[bytes, int]
    """How many messages each has in the log."""
    depths: "Sequence[QueueDepth]"

    @property
    def completed(self) -> int:
        return max(0, self.total - self.pending - self.processing)


async def queue_numbers(
    broker: "Facade", topic: Topic, index: PartitionIndex, *, is_complete: bool = True
) -> QueueNumbers:
    details = await broker.describe(topic.name)
    depths = await broker.queue_depths.of_all(topic.name)
    chosen = _chosen(depths)
    waiting = details.message_count if chosen is None else chosen.ready + chosen.retrying + chosen.blocked
    return QueueNumbers(
        total=details.message_count,
        pending=waiting,
        processing=sum(depth.leased for depth in depths),
        dead=sum(depth.dead for depth in depths),
        size_bytes=details.size_bytes,
        oldest_age_ms=max((depth.oldest_age_ms for depth in depths), default=0),
        partitions=await index.counts(topic, details, is_complete=is_complete),
        depths=depths,
    )


async def unsettled_count(broker: "Facade", topic: Topic) -> int:
    """Messages that wait or are being processed, for queue mode or the group that is furthest behind."""
    chosen = _chosen(await broker.queue_depths.of_all(topic.name))
    if chosen is None:
        return (await broker.describe(topic.name)).message_count
    return chosen.ready + chosen.retrying + chosen.blocked + chosen.leased


def _chosen(depths: "Sequence[QueueDepth]") -> "QueueDepth | None":
    """Queue mode where it is used, otherwise the group that is furthest behind."""
    for depth in depths:
        if depth.group == QUEUE_MODE:
            return depth
    return max(depths, key=lambda depth: depth.ready + depth.retrying + depth.blocked, default=None)
