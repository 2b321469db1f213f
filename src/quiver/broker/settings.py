"""The settings of a broker as a whole."""

import msgspec

from quiver.cluster.placement import ALONE, Placement
from quiver.model.limits import TRANSACTION_OPEN_MS
from quiver.model.topic import TopicConfig
from quiver.queues.partition.frame_cache import FrameCache
from quiver.storage.history import NO_HISTORY, History
from quiver.topics.replica_counts import ONE_REPLICA, ReplicaCounts


class BrokerSettings(msgspec.Struct, frozen=True, kw_only=True):
    auto_create: bool = False
    """Whether publishing to a topic that does not exist creates it."""
    topic_defaults: TopicConfig = TopicConfig()
    replicas: ReplicaCounts = ONE_REPLICA
    maintenance_seconds: float = 5.0
    """How often retention is applied, and compaction where it is due."""
    transaction_max_ms: int = TRANSACTION_OPEN_MS
    """How long a transaction may be open, even if its producer keeps sending heartbeats."""
    delivery_history: History = NO_HISTORY
    """How much of delivery journals is kept beyond what they need."""
    placement: Placement = ALONE
    """Which worker this is, among how many: it opens the units that it owns."""
    frames: FrameCache | None = None
    """What queues read ahead, if brokers of one process share it."""
