"""What a broker knows of its topics."""

from collections.abc import Mapping

from quiver.client._sync.admin.topics import Topics
from quiver.client._sync.connection.reconnecting import ReconnectingConnection
from quiver.client._sync.read.offsets import find_offsets
from quiver.model.errors import ConnectionLost
from quiver.model.position import LATEST, Position
from quiver_spark.broker_link import broker_link
from quiver_spark.source.catalogue import TopicExtent, TopicFacts
from quiver_spark.source.options import ReadOptions
from quiver_spark.source.slices import Slice


class BrokerCatalogue:
    def __init__(self, options: ReadOptions) -> None:
        self._link: ReconnectingConnection = broker_link(options.bootstrap, options.timeout_seconds)
        self._committed = options.committed
        self._topics = Topics(self._link)

    def names(self) -> list[str]:
        try:
            return self._topics.list()
        except ConnectionLost as error:
            raise _unreachable(error) from None

    def extent(self, name: str) -> TopicExtent:
        try:
            topic = self._topics.describe(name)
            earliest = [first for first, _ in topic.offsets]
            latest = [behind for _, behind in topic.offsets]
            if self._committed:
                stable = find_offsets(self._link, topic.id, dict.fromkeys(range(len(latest)), LATEST))
                latest = [stable[number] for number in range(len(latest))]
        except ConnectionLost as error:
            raise _unreachable(error) from None
        return TopicExtent(name, topic.id, earliest, latest, topic.size_bytes)

    def facts(self, name: str) -> TopicFacts:
        topic = self._topics.describe(name)
        is_compacted, in_memory = "compact" in topic.settings["cleanup"], topic.settings["durability"] == "memory"
        return TopicFacts(is_compacted, in_memory, topic.created_at_ms)

    def find(self, topic: TopicExtent, positions: Mapping[int, Position]) -> dict[int, int]:
        return find_offsets(self._link, topic.id, positions)

    def completed(self, piece: Slice) -> Slice:
        return piece

    def close(self) -> None:
        """The link is kept for whoever comes next."""


def _unreachable(error: ConnectionLost) -> ConnectionLost:
    return ConnectionLost(f"{error.message}; is the broker running there (option bootstrap)?")
