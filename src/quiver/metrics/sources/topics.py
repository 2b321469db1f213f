"""Numbers of topics: what went in and out, and what they hold."""

from collections.abc import Iterator

from quiver.delays.service import Delays
from quiver.messages.fetch import Fetch
from quiver.messages.publish import Publish
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
from quiver.telemetry.exposition import Labels, Series
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
        values = collection.values
        names: dict[int, str] = {topic.id: topic.name for topic in self._catalogue.topics()}
        collection.topics.update(names)
        online = offline = waiting = 0
        for topic_id, partitions in self._partitions.by_topic():
            if topic_id not in names:  # not shown yet
                continue
            await collection.pace.turn()
            label = collection.topics.of(topic_id)
            collection.count(("topic", topic_id), _traffic(label, partitions))
            for partition in partitions if label else ():  # a shared histogram would fall with a deleted topic
                traffic = partition.traffic
                if traffic.received_messages:
                    values.observe(DELIVERY_WAIT, traffic.delivery_seconds, label)
                    values.observe(ACK_WAIT, traffic.ack_seconds, label)
            values.add(LOG_BYTES, sum([partition.log.size_bytes for partition in partitions]), label)
            if delayed := self._delays.pending_count(topic_id):
                values.add(DELAYED, delayed, label)
            failed = sum([partition.log.failure is not None for partition in partitions])
            online, offline = online + len(partitions) - failed, offline + failed
            waiting += sum([partition.waiting_bytes for partition in partitions])
        values.set(PARTITIONS, online, "online")
        values.set(PARTITIONS, offline, "offline")
        values.set(WRITE_QUEUE, waiting)
        values.observe(FETCH_WAIT, self._fetch.wait_seconds)
        for code, count in self._publish.refused.items():
            values.add(REFUSED, count, "", code)
        values.observe(LATENESS, self._delays.lateness_seconds())


def _traffic(label: str, partitions: list[Partition]) -> Iterator[tuple[Series, float, Labels]]:
    messages = size = frames = duplicates = fetched = received = browsed = sent = copied = 0
    retained_out = compacted = 0
    refused: dict[str, int] = {}
    for partition in partitions:
        traffic = partition.traffic
        messages += traffic.published_messages
        size += traffic.published_bytes
        frames += traffic.published_frames
        duplicates += traffic.duplicates
        retained_out += traffic.retained_out_bytes
        compacted += traffic.compacted_messages
        for code, count in traffic.refused.items():
            refused[code] = refused.get(code, 0) + count
        fetched += traffic.fetched_messages
        received += traffic.received_messages
        browsed += traffic.browsed_messages
        sent += traffic.fetched_bytes - traffic.fetched_copied_bytes
        copied += traffic.received_bytes + traffic.browsed_bytes + traffic.fetched_copied_bytes
    yield PUBLISHED_MESSAGES, messages, (label,)
    yield PUBLISHED_BYTES, size, (label,)
    yield PUBLISHED_FRAMES, frames, (label,)
    if not (fetched or received or browsed or duplicates or retained_out or compacted or refused):
        return
    for series, count, labels in (
        (DUPLICATES, duplicates, (label,)),
        (RETENTION_REMOVED, retained_out, (label,)),
        (COMPACTION_REMOVED, compacted, (label,)),
        *((REFUSED, count, (label, code)) for code, count in refused.items()),
        (READ_MESSAGES, fetched, (label, "fetch")),
        (READ_MESSAGES, received, (label, "receive")),
        (READ_MESSAGES, browsed, (label, "browse")),
        (READ_BYTES, sent, (label, "sendfile")),
        (READ_BYTES, copied, (label, "copy")),
    ):
        if count:
            yield series, count, labels
