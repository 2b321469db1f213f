"""Numbers of topics: what went in and out, and what they hold."""

from collections.abc import Iterator

from quiver.delays.service import Delays
from quiver.messages.fetch import Fetch
from quiver.metrics.collector import Collection
from quiver.metrics.series import (
    DELAYED,
    DUPLICATES,
    FETCH_WAIT,
    LOG_BYTES,
    PARTITIONS,
    PUBLISHED_BYTES,
    PUBLISHED_FRAMES,
    PUBLISHED_MESSAGES,
    READ_BYTES,
    READ_MESSAGES,
    WRITE_QUEUE,
)
from quiver.partition.partition import Partition
from quiver.telemetry.exposition import Labels, Series
from quiver.topics.catalogue import TopicCatalogue
from quiver.topics.partitions import Partitions


class TopicNumbers:
    def __init__(self, catalogue: TopicCatalogue, partitions: Partitions, delays: Delays, fetch: Fetch) -> None:
        self._catalogue = catalogue
        self._partitions = partitions
        self._delays = delays
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


def _traffic(label: str, partitions: list[Partition]) -> Iterator[tuple[Series, float, Labels]]:
    messages = size = frames = duplicates = fetched = received = browsed = sent = copied = 0
    for partition in partitions:
        traffic = partition.traffic
        messages += traffic.published_messages
        size += traffic.published_bytes
        frames += traffic.published_frames
        duplicates += traffic.duplicates
        fetched += traffic.fetched_messages
        received += traffic.received_messages
        browsed += traffic.browsed_messages
        sent += traffic.fetched_bytes - traffic.fetched_copied_bytes
        copied += traffic.received_bytes + traffic.browsed_bytes + traffic.fetched_copied_bytes
    yield PUBLISHED_MESSAGES, messages, (label,)
    yield PUBLISHED_BYTES, size, (label,)
    yield PUBLISHED_FRAMES, frames, (label,)
    for series, count, labels in (
        (DUPLICATES, duplicates, (label,)),
        (READ_MESSAGES, fetched, (label, "fetch")),
        (READ_MESSAGES, received, (label, "receive")),
        (READ_MESSAGES, browsed, (label, "browse")),
        (READ_BYTES, sent, (label, "sendfile")),
        (READ_BYTES, copied, (label, "copy")),
    ):
        if count:
            yield series, count, labels
