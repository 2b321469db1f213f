"""What requests about compaction ask of the broker."""

from collections.abc import Awaitable, Callable
from typing import Any

from quiver.broker.broker import Broker
from quiver.protocol.compaction_messages import CompactedPartition, CompactedTopic, CompactTopic
from quiver.protocol.message import Message


async def _compact(broker: Broker, request: CompactTopic) -> Message:
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


COMPACTION_RESPONSES: dict[type[Message], Callable[[Broker, Any], Awaitable[Message]]] = {CompactTopic: _compact}
