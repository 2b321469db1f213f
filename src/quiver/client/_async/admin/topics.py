"""Topic administration: `q.topics`."""

import logging
from collections.abc import Sequence
from typing import Unpack

from quiver.client._async.connection.reconnecting import AsyncReconnectingConnection, unexpected
from quiver.client.admin.replicas import PartitionReplicas, partition_replicas
from quiver.client.admin.settings import TopicSettings, sent_settings
from quiver.model.errors import TopicExists, TopicNotFound
from quiver.model.names import check_name
from quiver.model.times import Duration, wait_seconds
from quiver.model.topic import settings_that_differ
from quiver.protocol.compaction_messages import CompactedTopic, CompactTopic
from quiver.protocol.messages import (
    AddPartitions,
    AlterTopic,
    CreateTopic,
    DeleteTopic,
    DescribeTopic,
    GetMetadata,
    Metadata,
    PurgeTopic,
    TopicDescription,
)

logger = logging.getLogger("quiver.client")

_COMPACTION_SECONDS = 3600.0


class AsyncTopics:
    def __init__(self, broker: AsyncReconnectingConnection) -> None:
        self._broker = broker

    async def create(
        self, name: str, *, exist_ok: bool = False, **settings: Unpack[TopicSettings]
    ) -> TopicDescription:
        """Creates a topic; settings that are not given have the broker's defaults.

        partitions (3), retention (`7d`; None: forever), retention_bytes (per partition; None: no limit),
        segment_bytes (`64MiB`), durability (fsync, interval, memory), cleanup (delete, compact, `compact,delete`),
        tombstone_retention (`24h`), dedup_window (`10m`), max_message_bytes, ttl, settled_retention,
        priority_weights, replication_factor, min_isr, labels, and for its queue groups max_attempts (4), backoff
        (`1s`), backoff_max (`60s`), visibility (`30s`), max_unacked (1,000), starvation (`30s`), count_expired
        (True). Durations are text, seconds or timedelta, sizes are bytes or text.

        Raises TopicExists, InvalidName, InvalidSetting. With `exist_ok` an existing topic is left as it is, and a
        warning is logged if its settings differ; `alter` changes them.
        """
        sent = sent_settings(settings)
        while True:
            try:
                await self._broker.call(CreateTopic(check_name(name), sent), repeatable=exist_ok)
                return await self.describe(name)
            except TopicExists:
                if not exist_ok:
                    raise
            try:
                present = await self.describe(name)
            except TopicNotFound:
                continue  # deleted between the two requests
            differences = settings_that_differ(present.settings, sent)
            if differences:
                logger.warning("topic %s exists and stays as it is: %s", name, ", ".join(differences))
            return present

    async def list(self) -> list[str]:
        """The names of all topics, sorted."""
        answer = (await self._broker.call(GetMetadata())).answer
        if not isinstance(answer, Metadata):
            raise unexpected(answer)
        return sorted(topic.name for topic in answer.topics)

    async def describe(self, name: str) -> TopicDescription:
        """Settings, size, and per partition the earliest and the next offset."""
        answer = (await self._broker.call(DescribeTopic(check_name(name)))).answer
        if not isinstance(answer, TopicDescription):
            raise unexpected(answer)
        return answer

    async def replicas(self, name: str) -> Sequence[PartitionReplicas]:
        """For each partition, the nodes of the cluster that have it. They are empty for a broker that is alone."""
        answer = (await self._broker.call(GetMetadata([check_name(name)], with_replicas=True))).answer
        if not isinstance(answer, Metadata):
            raise unexpected(answer)
        for topic in answer.topics:
            if topic.name == name:
                return partition_replicas(topic, answer)
        raise TopicNotFound(topic=name)

    async def alter(self, name: str, **settings: Unpack[TopicSettings]) -> TopicDescription:
        """Changes the given settings (see `create`). `partitions` may only grow, which moves keys to other
        partitions."""
        await self._broker.call(AlterTopic(check_name(name), sent_settings(settings)))
        return await self.describe(name)

    async def add_partitions(self, name: str, count: int) -> TopicDescription:
        """Raises the number of partitions to `count`, which moves keys to other partitions."""
        await self._broker.call(AddPartitions(check_name(name), count))
        return await self.describe(name)

    async def delete(self, name: str) -> None:
        """Removes a topic with everything in it."""
        await self._broker.call(DeleteTopic(check_name(name)), repeatable=False)

    async def purge(self, name: str) -> None:
        """Removes every message of a topic; offsets continue where they were."""
        await self._broker.call(PurgeTopic(check_name(name)))

    async def compact(
        self,
        name: str,
        *,
        partitions: Sequence[int] | None = None,
        dry_run: bool = False,
        timeout: Duration = _COMPACTION_SECONDS,
    ) -> CompactedTopic:
        """Compacts a topic now: only the last message of each key stays. With `dry_run` nothing changes.

        Raises InvalidRequest if the topic's `cleanup` is delete. The broker continues after the timeout.
        """
        request = CompactTopic(check_name(name), None if partitions is None else [*partitions], dry_run)
        answer = (await self._broker.call(request, timeout=wait_seconds(timeout))).answer
        if not isinstance(answer, CompactedTopic):
            raise unexpected(answer)
        return answer
