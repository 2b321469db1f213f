"""Numbers of topics: what went in and out, and what they hold."""

from quiver.delays.service import Delays
from quiver.messages.fetch import Fetch
from quiver.messages.publish import Publish
from quiver.metrics.cluster_series import ACKED_BY_LEADER
from quiver.metrics.collector import Collection
from quiver.metrics.series import (
    ACK_WAIT,
    COMPACTION_REMOVED,
    DELAYED,
    DELIVERY_WAIT,
    DUPLICATES,
    FETCH_WAIT,
    LATENESS,
    LOG_BYTES,
    PARTITIONS,
    PUBLISHED_BYTES,
    PUBLISHED_FRAMES,
    PUBLISHED_MESSAGES,
    READ_BYTES,
    READ_MESSAGES,
    REFUSED,
    RETENTION_REMOVED,
    WRITE_QUEUE,
)
from quiver.partition.partition import Partition
from quiver.partition.traffic import Traffic
from quiver.telemetry.exposition import Collected, Labels, Series
from quiver.topics.catalogue import TopicCatalogue
from quiver.topics.partitions import Partitions


class TopicNumbers:
    def __init__(
        self, catalogue: TopicCatalogue, partitions: Partitions, delays: Delays, publish: Publish, fetch: Fetch
    ) -> None:
        self._catalogue = catalogue
        self._partitions = partitions
        self._delays = delays
        self._publish = publish
        self._fetch = fetch

    async def collect(self, collection: Collection) -> None:
        values, pace = collection.values, collection.pace
        names: dict[int, str] = {topic.id: topic.name for topic in self._catalogue.topics()}
        collection.topics.update(names)
        online = offline = waiting = 0
        published = [values.of(series) for series in _PUBLISHED]
        sizes = values.of(LOG_BYTES)
        for topic_id, partitions in self._partitions.by_topic():
            if topic_id not in names:  # not shown yet
                continue
            if pace.is_used_up:
                await pace.turn()
            labels = (collection.topics.of(topic_id),)
            counts, rare = _traffic(labels, partitions)
            if labels[0]:
                for by_labels, count in zip(published, counts, strict=True):
                    by_labels[labels] = count
                if rare:
                    collection.count(("topic", topic_id), rare)
                    _observe_waits(values, labels, partitions)
            else:  # a shared histogram would fall with a deleted topic
                shared = [(series, count, labels) for series, count in zip(_PUBLISHED, counts, strict=True)]
                collection.count(("topic", topic_id), [*shared, *rare])
            size_bytes = 0
            for partition in partitions:
                log = partition.log
                size_bytes += log.size_bytes
                waiting += partition.waiting_bytes
                offline += log.failure is not None
            online += len(partitions)
            sizes[labels] = sizes.get(labels, 0) + size_bytes
            if delayed := self._delays.pending_count(topic_id):
                values.add(DELAYED, delayed, *labels)
        values.set(PARTITIONS, online - offline, "online")
        values.set(PARTITIONS, offline, "offline")
        values.set(WRITE_QUEUE, waiting)
        values.observe(FETCH_WAIT, self._fetch.wait_seconds)
        for code, count in self._publish.refused.items():
            values.add(REFUSED, count, "", code)
        values.observe(LATENESS, self._delays.lateness_seconds())


def _observe_waits(values: Collected, labels: Labels, partitions: list[Partition]) -> None:
    for partition in partitions:
        traffic = partition.traffic
        if traffic.received_messages:
            values.observe(DELIVERY_WAIT, traffic.delivery_seconds, *labels)
            values.observe(ACK_WAIT, traffic.ack_seconds, *labels)


_PUBLISHED = (PUBLISHED_MESSAGES, PUBLISHED_BYTES, PUBLISHED_FRAMES)
_Counts = tuple[int, int, int]


def _traffic(labels: Labels, partitions: list[Partition]) -> tuple[_Counts, list[tuple[Series, float, Labels]]]:
    """What every topic shows, and what is shown where it is not 0."""
    messages = size = frames = 0
    rare: list[tuple[Series, float, Labels]] = []
    for partition in partitions:
        traffic = partition.traffic
        messages += traffic.published_messages
        size += traffic.published_bytes
        frames += traffic.published_frames
        if (
            traffic.fetched_messages
            or traffic.received_messages
            or traffic.browsed_messages
            or traffic.duplicates
            or traffic.acked_by_leader_frames
            or traffic.retained_out_bytes
            or traffic.compacted_messages
            or traffic.refused
        ):
            rare += _rare(labels[0], traffic)
    return (messages, size, frames), rare


def _rare(label: str, traffic: Traffic) -> list[tuple[Series, float, Labels]]:
    copied = traffic.received_bytes + traffic.browsed_bytes + traffic.fetched_copied_bytes
    found: list[tuple[Series, float, Labels]] = [
        (REFUSED, count, (label, code)) for code, count in traffic.refused.items()
    ]
    if traffic.acked_by_leader_frames:
        found.append((ACKED_BY_LEADER, traffic.acked_by_leader_frames, (label,)))
    if traffic.duplicates:
        found.append((DUPLICATES, traffic.duplicates, (label,)))
    if traffic.retained_out_bytes:
        found.append((RETENTION_REMOVED, traffic.retained_out_bytes, (label,)))
    if traffic.compacted_messages:
        found.append((COMPACTION_REMOVED, traffic.compacted_messages, (label,)))
    if traffic.fetched_messages:
        found.append((READ_MESSAGES, traffic.fetched_messages, (label, "fetch")))
    if traffic.received_messages:
        found.append((READ_MESSAGES, traffic.received_messages, (label, "receive")))
    if traffic.browsed_messages:
        found.append((READ_MESSAGES, traffic.browsed_messages, (label, "browse")))
    if traffic.fetched_bytes > traffic.fetched_copied_bytes:
        found.append((READ_BYTES, traffic.fetched_bytes - traffic.fetched_copied_bytes, (label, "sendfile")))
    if copied:
        found.append((READ_BYTES, copied, (label, "copy")))
    return found
