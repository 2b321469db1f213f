"""Numbers of a node of a replicated cluster."""

from collections import Counter

from quiver.metrics.cluster_series import (
    EPOCHS,
    LOGS_REFUSING,
    REPLICA_LAG,
    REPLICA_READ_BYTES,
    UNITS,
    UNITS_BEHIND,
    UNITS_REFUSING,
)
from quiver.metrics.collector import Collection
from quiver.replication.node import ReplicatedNode


class ReplicaNumbers:
    def __init__(self, replicas: ReplicatedNode) -> None:
        self._replicas = replicas

    async def collect(self, collection: Collection) -> None:
        values, lags = collection.values, Counter[int]()
        led = followed = behind = refusing = logs_refusing = 0
        for status in self._replicas.status():
            if not status.is_led_here:
                followed += self._replicas.member.node in status.unit.replicas
                continue
            led += 1
            behind += set(status.unit.isr) < set(status.unit.replicas)
            refusing += not status.unit.has_enough
            logs_refusing += status.refusing_count
            lags.update(status.lag_bytes)
        values.set(UNITS, led, "leader")
        values.set(UNITS, followed, "follower")
        values.set(UNITS_BEHIND, behind)
        values.set(UNITS_REFUSING, refusing)
        values.set(LOGS_REFUSING, logs_refusing)
        for node, lag_bytes in sorted(lags.items()):
            values.set(REPLICA_LAG, lag_bytes, str(node))
        values.set(EPOCHS, self._replicas.epochs_begun)
        values.set(REPLICA_READ_BYTES, self._replicas.read_bytes)
