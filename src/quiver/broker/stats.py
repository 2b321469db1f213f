"""What a broker contains as a whole."""

from typing import NamedTuple

from quiver.topics.details import TopicDetails


class BrokerStats(NamedTuple):
    uptime_seconds: float
    topics: list[TopicDetails]

    @property
    def size_bytes(self) -> int:
        return sum(details.size_bytes for details in self.topics)
