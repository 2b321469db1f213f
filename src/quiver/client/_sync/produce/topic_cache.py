# Generated from quiver/client/_async by scripts/unasync.py: do not edit.
"""What a producer knows about its topic, and where it sends to."""

import math

from quiver.client._sync.connection.reconnecting import ReconnectingConnection
from quiver.client.produce.batches.in_flight import InFlightBatch
from quiver.model.errors import QuiverError
from quiver.protocol.messages import TopicInfo


class TopicCache:
    def __init__(self, broker: ReconnectingConnection, name: str) -> None:
        self.name = name
        self._broker = broker
        self._known: TopicInfo | None = None
        self._loaded_at = 0.0

    def known(self, max_age_seconds: float) -> TopicInfo | None:
        """The topic if it is known and not older than that."""
        age_seconds = self._broker.clock.monotonic() - self._loaded_at
        return self._known if age_seconds <= max_age_seconds else None

    def owner(self, partition: int) -> ReconnectingConnection:
        """The connection to the worker of a partition, as far as that is known."""
        known = self._known
        if known is None or not known.partition_workers:
            return self._broker
        return self._broker.of_partition(known.id, partition)

    def by_owner(self, batches: list[InFlightBatch]) -> dict[ReconnectingConnection, list[InFlightBatch]]:
        if self._known is None or not self._known.partition_workers:
            return {self._broker: batches}
        grouped: dict[ReconnectingConnection, list[InFlightBatch]] = {}
        for each in batches:
            grouped.setdefault(self.owner(each[1].partition), []).append(each)
        return grouped

    def note_retry(self, error: QuiverError, attempt: int, wait_seconds: float) -> None:
        self._broker.log.retrying(f"sending to {self.name}", error, attempt, wait_seconds)

    def get(self, max_age_seconds: float = math.inf, timeout: float | None = None) -> TopicInfo:
        """The topic, fetched again if it is older than a time. Raises TopicNotFound."""
        now = self._broker.clock.monotonic()
        if self._known is None or now - self._loaded_at > max_age_seconds:
            self._loaded_at = now
            found = self._broker.topic(self.name, timeout)
            # Another id is another topic: batches for the old one are refused and then rerouted.
            if self._known is None or found.id == self._known.id:
                self._known = found
        return self._known

    def reload(self, timeout: float) -> TopicInfo:
        """The current topic, even if it was deleted and created again. Raises TopicNotFound."""
        self._known = self._broker.topic(self.name, timeout)
        return self._known
