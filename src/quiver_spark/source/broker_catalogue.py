"""What a broker knows about its topics."""

from collections.abc import Mapping

from quiver.model.errors import ConnectionLost
from quiver.model.position import LATEST, Position
from quiver.system.clock import SystemClock
from quiver_spark.broker_client import broker_client, unreachable
from quiver_spark.direct.broker_files import files_of_client
from quiver_spark.direct.known_files import KnownFiles
from quiver_spark.source.catalogue import TopicExtent, TopicFacts
from quiver_spark.source.options import ReadOptions
from quiver_spark.source.slices import Replica, Slice


class BrokerCatalogue:
    def __init__(self, options: ReadOptions) -> None:
        self._client = broker_client(options.bootstrap, options.timeout_seconds)
        self._committed = options.committed
        client, clock = self._client, SystemClock()
        self._files = KnownFiles(lambda: files_of_client(client), clock) if options.local_files else None
        self._replicas: dict[str, list[tuple[Replica, ...]]] = {}
        """By topic and partition, at the last look; none for a broker that is alone."""
        self._is_alone = not options.local_files

    def names(self) -> list[str]:
        try:
            return self._client.topics.list()
        except ConnectionLost as error:
            raise unreachable(error) from None

    def extent(self, name: str) -> TopicExtent:
        try:
            topic = self._client.topics.describe(name)
            earliest = [first for first, _ in topic.offsets]
            latest = [end for _, end in topic.offsets]
            if self._committed:
                stable = self._client.frames.offsets(topic.id, dict.fromkeys(range(len(latest)), LATEST))
                latest = [stable[number] for number in range(len(latest))]
            self._find_replicas(name)
        except ConnectionLost as error:
            raise unreachable(error) from None
        return TopicExtent(name, topic.id, earliest, latest, topic.size_bytes)

    def _find_replicas(self, name: str) -> None:
        if self._is_alone:
            return
        partitions = self._client.topics.replicas(name)
        self._is_alone = not any(each.replicas for each in partitions)
        self._replicas[name] = [
            tuple(Replica(node.address, node.http_url, node.rack) for node in each.in_sync) for each in partitions
        ]

    def facts(self, name: str) -> TopicFacts:
        topic = self._client.topics.describe(name)
        is_compacted, in_memory = "compact" in topic.settings["cleanup"], topic.settings["durability"] == "memory"
        return TopicFacts(is_compacted, in_memory, topic.created_at_ms)

    def find(self, topic: TopicExtent, positions: Mapping[int, Position]) -> dict[int, int]:
        return self._client.frames.offsets(topic.id, positions)

    def completed(self, slice_: Slice) -> Slice:
        """In a cluster the files of the node that was asked say nothing of what is committed."""
        if self._is_alone:
            return slice_._replace(files=None if self._files is None else self._files.now())
        replicas = self._replicas.get(slice_.topic, ())
        known = slice_.partition < len(replicas)
        return slice_._replace(replicas=replicas[slice_.partition] if known else ())

    def close(self) -> None:
        """The client is kept for the next use."""
