"""Numbers of groups of both kinds: deliveries, lag, members."""

from collections.abc import Iterator, Mapping

from quiver.groups.service import Groups
from quiver.metrics.backlog import GroupBacklog
from quiver.metrics.collector import Collection
from quiver.metrics.sampler import Sampler
from quiver.metrics.series import (
    BLOCKED_KEYS,
    COMMITS,
    DEAD_LETTERS,
    DELIVERIES,
    LAG_MESSAGES,
    LAG_SECONDS,
    LEASES_LOST,
    MEMBERS,
    QUEUE_MESSAGES,
    QUEUE_OLDEST,
    REBALANCE_SECONDS,
    REBALANCES,
    SETTLED,
)
from quiver.queues.partition.queue_group import Counters
from quiver.queues.service import Queues
from quiver.streams.service import Streams
from quiver.telemetry.exposition import Labels, Series


class GroupNumbers:
    def __init__(self, groups: Groups, streams: Streams, queues: Queues, sampler: Sampler) -> None:
        self._groups = groups
        self._streams = streams
        self._queues = queues
        self._sampler = sampler

    async def collect(self, collection: Collection) -> None:
        """Nothing while groups cannot be read."""
        if self._streams.problem is not None:
            return
        groups = list(self._groups.groups().values())
        names: dict[int, str] = {group.id: group.name for group in groups}
        collection.groups.update(names)
        for group in groups:
            await collection.pace.turn()
            if group.kind == "stream" and not self._streams.owns(group.id):
                continue
            if group.kind == "stream":
                count = len(self._streams.group(group.name).membership.members)
            else:
                count = len(self._queues.consumers(group.id))
            collection.values.add(MEMBERS, count, collection.groups.of(group.id))
        self._count_streams(collection, names)
        await self._count_deliveries(collection, names)
        for backlog in await self._sampler.group_backlogs():
            if backlog.group_id in names:
                _show_backlog(collection, backlog)

    def _count_streams(self, collection: Collection, names: Mapping[int, str]) -> None:
        activity = self._streams.activity
        for group_id, count in activity.commits.items():
            if group_id in names:
                collection.count(("commits", group_id), [(COMMITS, count, (collection.groups.of(group_id),))])
        for (group_id, reason), count in activity.rebalances.items():
            if group_id in names:
                label = collection.groups.of(group_id)
                collection.count(("rebalances", group_id, reason), [(REBALANCES, count, (label, reason))])
        collection.values.observe(REBALANCE_SECONDS, activity.rebalance_seconds)

    async def _count_deliveries(self, collection: Collection, names: Mapping[int, str]) -> None:
        by_pair: dict[tuple[int, int], list[Counters]] = {}
        for queue in self._queues.all_partition_queues():
            await collection.pace.turn()
            for group_id, counters in queue.counters_by_group.items():
                by_pair.setdefault((queue.place.topic_id, group_id), []).append(counters)
        for (topic_id, group_id), of_pair in by_pair.items():
            await collection.pace.turn()
            if group_id in names:
                labels = collection.topics.of(topic_id), collection.groups.of(group_id)
                collection.count(("group", topic_id, group_id), list(_deliveries(labels, of_pair)))


def _deliveries(labels: tuple[str, str], parts: list[Counters]) -> Iterator[tuple[Series, float, Labels]]:
    delivered = sum([counters.delivered for counters in parts])
    again = sum([counters.delivered_again for counters in parts])
    yield DELIVERIES, delivered - again, (*labels, "false")
    yield DELIVERIES, again, (*labels, "true")
    yield SETTLED, sum([counters.acks for counters in parts]), (*labels, "ack")
    yield SETTLED, sum([counters.nacks for counters in parts]), (*labels, "nack")
    yield SETTLED, sum([counters.rejects for counters in parts]), (*labels, "reject")
    yield SETTLED, sum([counters.extensions for counters in parts]), (*labels, "extend")
    yield LEASES_LOST, sum([counters.expired_leases for counters in parts]), labels
    reasons: dict[str, int] = {}
    for counters in parts:
        for reason, count in counters.dead_by_reason.items():
            reasons[reason] = reasons.get(reason, 0) + count
    for reason, count in reasons.items():
        yield DEAD_LETTERS, count, (*labels, reason)


def _show_backlog(collection: Collection, backlog: GroupBacklog) -> None:
    values = collection.values
    labels = collection.topics.of(backlog.topic_id), collection.groups.of(backlog.group_id)
    values.add(LAG_MESSAGES, backlog.lag_messages, *labels)
    values.raise_to(LAG_SECONDS, backlog.lag_ms / 1000 if backlog.lag_messages else 0, *labels)
    if backlog.is_queue:
        values.add(QUEUE_MESSAGES, backlog.lag_messages, *labels, "ready")
        values.add(QUEUE_MESSAGES, backlog.leased, *labels, "leased")
        values.add(QUEUE_MESSAGES, backlog.retrying, *labels, "retrying")
        values.raise_to(QUEUE_OLDEST, backlog.lag_ms / 1000, *labels)
        values.add(BLOCKED_KEYS, backlog.blocked_keys, *labels)
