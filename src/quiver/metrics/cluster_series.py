"""The series of a node of a replicated cluster."""

from quiver.telemetry.exposition import Series

UNITS = Series(
    "quiver_cluster_units",
    "gauge",
    ("role",),
    "Units of a cluster that have a replica on this node: role is leader or follower",
)
UNITS_BEHIND = Series(
    "quiver_cluster_units_behind",
    "gauge",
    (),
    "Units led by this node of which not all replicas are in sync",
    "A node is away or slow: `quiver cluster status` names it, docs/runbook.md says what to do.",
)
UNITS_REFUSING = Series(
    "quiver_cluster_units_refusing",
    "gauge",
    (),
    "Units led by this node that refuse messages, because fewer replicas than min_isr are in sync",
    "Start the nodes that are away.",
)
LOGS_REFUSING = Series(
    "quiver_cluster_logs_refusing",
    "gauge",
    (),
    "Logs led by this node that refuse messages, because fewer replicas are in sync than the cluster or their topic"
    " asks for (min_isr)",
    "Start the nodes that are away, or lower the topic's min_isr.",
)
REPLICA_LAG = Series(
    "quiver_replica_lag_bytes",
    "gauge",
    ("node",),
    "About what a follower lacks of the units that this node leads",
    "If it grows: look at the disk and the network of that node.",
)
EPOCHS = Series(
    "quiver_cluster_epochs_total",
    "counter",
    (),
    "How often this node has begun to lead a unit",
    "Nodes that lose their leases again and again swap, hang, or do not reach etcd.",
)
REPLICA_READ_BYTES = Series(
    "quiver_replica_read_bytes_total",
    "counter",
    (),
    "Bytes that readers got from replicas of this node, although another node leads (read_from=nearest)",
)
ACKED_BY_LEADER = Series(
    "quiver_published_acks_leader_frames_total",
    "counter",
    ("topic",),
    "Frames whose publishers did not wait for other replicas (acks=leader)",
    "A failover may lose the last of them: docs/cluster.md.",
)
CLUSTER = (
    UNITS,
    UNITS_BEHIND,
    UNITS_REFUSING,
    LOGS_REFUSING,
    REPLICA_LAG,
    EPOCHS,
    REPLICA_READ_BYTES,
    ACKED_BY_LEADER,
)
