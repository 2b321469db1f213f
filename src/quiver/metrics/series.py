"""Every series of GET /metrics: name, labels, meaning, and what to do when it is high. docs/metrics.md shows them."""

from typing import Any

from quiver.metrics.cluster_series import CLUSTER
from quiver.telemetry.exposition import Kind, Series


def _series(name: str, kind: Kind, labels: str, meaning: str, advice: str = "", **more: Any) -> Series:
    return Series(f"quiver_{name}", kind, tuple(labels.split()), meaning, advice, **more)


PUBLISHED_MESSAGES = _series(
    "published_messages_total",
    "counter",
    "topic",
    "Messages that were appended to a topic, by producers and by the broker (delayed, dead-lettered, scheduled)",
)
PUBLISHED_BYTES = _series("published_bytes_total", "counter", "topic", "Bytes of the frames that were appended")
PUBLISHED_FRAMES = _series(
    "published_frames_total",
    "counter",
    "topic",
    "Frames that were appended",
    "Few messages per frame cost the broker most of its time: let producers batch (linger).",
)
DUPLICATES = _series(
    "publish_duplicates_total",
    "counter",
    "topic",
    "Messages that were not appended because they were there already",
    "Producers repeat what was acknowledged: look for lost responses and short timeouts.",
)
REFUSED = _series(
    "publish_refused_total",
    "counter",
    "topic code",
    "Frames and single messages that were refused, by error code; topic is empty for those without a partition",
    "docs/http.md explains the codes.",
)
PUBLISH_SECONDS = _series(
    "publish_seconds",
    "histogram",
    "gateway",
    "Time from a publish request to its response, the sync included",
    "Compare with quiver_sync_seconds (the disk) and quiver_event_loop_lag_seconds (the processor).",
)
READ_MESSAGES = _series(
    "read_messages_total",
    "counter",
    "topic kind",
    "Messages that were sent to readers: kind is fetch, receive (queues and polls) or browse",
)
READ_BYTES = _series(
    "read_bytes_total",
    "counter",
    "topic path",
    "Bytes that were sent to readers: path is sendfile, or copy for what went through the broker's memory",
)
FETCH_WAIT = _series(
    "fetch_wait_seconds", "histogram", "", "Time that fetches waited because there was nothing to return yet"
)

DELIVERIES = _series(
    "deliveries_total",
    "counter",
    "topic group again",
    "Messages that were leased to consumers; again is true for those that were delivered before",
    "A high share of again means that consumers fail, or that visibility is too short.",
)
SETTLED = _series(
    "settled_total",
    "counter",
    "topic group action",
    "Messages that were settled: action is ack, nack, reject or extend",
    "Many nacks: read the errors in the dead letters, or the logs of the consumers.",
)
DEAD_LETTERS = _series(
    "dead_letters_total",
    "counter",
    "topic group reason",
    "Messages that a group gave up: reason is max_attempts, rejected or expired",
    "Look at them with quiver dlq list, repair the consumer, then quiver dlq redrive.",
)
LEASES_LOST = _series(
    "leases_lost_total",
    "counter",
    "topic group",
    "Messages whose lease ended before they were settled",
    "Consumers are slower than visibility, or died: raise visibility, extend leases, or receive fewer at a time.",
)
QUEUE_MESSAGES = _series(
    "queue_messages",
    "gauge",
    "topic group state",
    "Messages of a queue group: state is ready, leased or retrying",
    "Many ready: more consumers. Many leased: slow ones. Many retrying: failing ones.",
)
QUEUE_OLDEST = _series(
    "queue_oldest_seconds",
    "gauge",
    "topic group",
    "Age of the oldest message that a queue group has not settled",
    "Look at GET /topics/{topic}/queues/{group}: who holds it, and which keys are blocked.",
    added_up=False,
)
BLOCKED_KEYS = _series(
    "queue_blocked_keys",
    "gauge",
    "topic group",
    "Keys whose messages wait for an earlier one that is leased or retried",
    "One failing message holds up its key: reject it, or release its lease.",
)

DELIVERY_WAIT = _series(
    "publish_to_delivery_seconds",
    "histogram",
    "topic",
    "Time from the arrival of messages to their first delivery by a queue",
    "Too few consumers, or they are too slow.",
)

ACK_WAIT = _series(
    "delivery_to_ack_seconds",
    "histogram",
    "topic",
    "Time from the delivery of messages by a queue to their ack, of the last 16,384 leases",
    "Consumers are slow; near visibility, leases are lost.",
)

LAG_MESSAGES = _series(
    "group_lag_messages",
    "gauge",
    "topic group",
    "Messages that a group has not read: not committed by a stream group, ready or blocked in a queue group",
    "If it keeps growing, add members (up to the number of partitions) or consumers.",
)
LAG_SECONDS = _series(
    "group_lag_seconds",
    "gauge",
    "topic group",
    "Age of the oldest message that a group has not read",
    "As for quiver_group_lag_messages; compare with the retention of the topic, which removes unread messages too.",
    added_up=False,
)
MEMBERS = _series(
    "group_members",
    "gauge",
    "group",
    "Members of a stream group, or consumers that were seen lately of a queue group",
    "More members than partitions: the rest is idle.",
)

REBALANCES = _series(
    "rebalances_total",
    "counter",
    "group reason",
    "Rebalances of stream groups that were begun: reason is join, leave (also after silence) or topics",
    "Members come and go: look for crashes, and for processing that takes longer than the session timeout.",
)
REBALANCE_SECONDS = _series(
    "rebalance_seconds",
    "histogram",
    "",
    "Time from the beginning of a rebalance until every partition has its member",
    "Members give up partitions late: they do so between two batches.",
)
COMMITS = _series("commits_total", "counter", "group", "Commits of offsets of stream groups")

LATENESS = _series(
    "delay_lateness_seconds",
    "histogram",
    "",
    "How late delayed messages entered their topics",
    "The broker was down, the disk is slow, or very many are due at once.",
)
SCHEDULE_RUNS = _series(
    "schedule_runs_total",
    "counter",
    "result",
    "Times of schedules that have come: result is fired, or failed if nothing could be sent",
    "quiver schedule list shows the error.",
)

SYNC_SECONDS = _series(
    "sync_seconds",
    "histogram",
    "",
    "Time that syncs of the write-ahead log and of segments take",
    "The disk is slow or shared. Publishes with durability fsync wait for it.",
)
SYNC_FAILURES = _series(
    "sync_failures_total",
    "counter",
    "",
    "Syncs that failed",
    "Any is serious: the partition takes no more writes. docs/recovery.md says what to do.",
)
BUFFER_MESSAGES = _series(
    "buffer_messages",
    "gauge",
    "",
    "Messages in the local buffer, which wait for the database",
    "The database is away; see readyz. What is in the buffer is stored when it is back.",
)
BUFFER_BYTES = _series(
    "buffer_bytes",
    "gauge",
    "",
    "Bytes in the local buffer",
    "Above buffer_bytes publishes are refused.",
)
BUFFERED = _series("buffered_messages_total", "counter", "", "Messages that were put into the local buffer")
RETENTION_REMOVED = _series("retention_removed_bytes_total", "counter", "topic", "Bytes that retention has removed")
COMPACTION_REMOVED = _series(
    "compaction_removed_messages_total", "counter", "topic", "Messages that compaction has removed"
)
RECOVERY = _series(
    "recovery_seconds",
    "gauge",
    "",
    "Time that the last start took until everything was recovered",
    "After a kill the ends of logs are checked: stop the broker with SIGTERM.",
    added_up=False,
)
LOG_BYTES = _series(
    "log_bytes",
    "gauge",
    "topic",
    "Bytes that the messages of a topic take on disk, or in memory",
    "Shorten retention, set retention_bytes, or compact.",
)
WRITE_QUEUE = _series(
    "write_queue_bytes",
    "gauge",
    "",
    "Bytes that were accepted and wait to be written",
    "The disk is slower than the producers.",
)
PARTITIONS = _series(
    "partitions",
    "gauge",
    "state",
    "Partitions: state is online, or offline if it takes no writes",
    "GET /readyz?verbose=true says why a partition is offline; docs/recovery.md says what to do.",
)
DISK_FREE = _series(
    "disk_free_bytes",
    "gauge",
    "",
    "Bytes that are free on the file system of the data directory",
    "When it is low: below min_free_bytes the broker refuses writes.",
    added_up=False,
)

LOOP_LAG = _series(
    "event_loop_lag_seconds",
    "histogram",
    "",
    "How late the event loop runs what is due",
    "Something uses the processor for long, or there is too little of it: see the slow requests in the log.",
)
CONNECTIONS = _series(
    "connections",
    "gauge",
    "gateway",
    "Open connections",
    "Clients that connect for every message are slow: keep connections.",
)
REQUESTS = _series(
    "requests_total",
    "counter",
    "gateway operation code",
    "Requests that were answered: code is ok or that of the error",
    "docs/http.md explains the codes.",
)
REQUEST_SECONDS = _series(
    "request_seconds",
    "histogram",
    "gateway operation",
    "Time from a request to its response, waiting for messages included",
    "See quiver_publish_seconds.",
)
MEMORY_HELD = _series(
    "memory_held_bytes",
    "gauge",
    "what",
    "Memory that is counted: what is requests (and responses) or queue_frames (the cache of queues)",
    "When requests reaches memory_budget, requests are refused: slow readers, or many large requests.",
)
BUILD_INFO = _series("build_info", "info", "version commit python", "The version that runs", added_up=False)

PROCESS_CPU = Series("process_cpu_seconds_total", "counter", (), "Processor time of the broker, user and system")
PROCESS_RESIDENT = Series(
    "process_resident_memory_bytes", "gauge", (), "Resident memory of the broker", "See quiver_memory_held_bytes."
)
PROCESS_VIRTUAL = Series("process_virtual_memory_bytes", "gauge", (), "Virtual memory of the broker")
PROCESS_FILES = Series(
    "process_open_fds", "gauge", (), "Open files and sockets", "Compare with process_max_fds: raise the limit."
)
PROCESS_MAX_FILES = Series("process_max_fds", "gauge", (), "The limit of open files and sockets")
PROCESS_START = Series(
    "process_start_time_seconds", "gauge", (), "When the broker started, in epoch seconds", added_up=False
)

DELAYED = _series("delayed_messages", "gauge", "topic", "Messages that enter their topic later")

TRANSACTIONS = _series(
    "transactions_total",
    "counter",
    "outcome",
    "Transactions that were decided: outcome is commit or abort",
    "Aborts that nobody asked for: producers that die or exceed their timeout.",
)
TRANSACTIONS_OPEN = _series(
    "transactions_open",
    "gauge",
    "",
    "Transactions that are open now",
    "Readers of committed messages wait for the oldest: quiver txn list.",
)

TRANSACTION_SECONDS = _series(
    "transaction_seconds",
    "histogram",
    "",
    "Time from the beginning of transactions to their decision",
    "Readers of committed messages wait for the slowest.",
)

TRACE_EVENTS = _series(
    "trace_events_total", "counter", "", "Spans of sampled messages that were written to the topic __traces"
)
TRACE_EVENTS_DROPPED = _series(
    "trace_events_dropped_total",
    "counter",
    "",
    "Spans that were dropped because too much is sampled, or because they could not be written",
    "Sample a smaller share; /traces/stats and the log say more.",
)

AREAS: dict[str, tuple[Series, ...]] = {
    "Publishing": (
        PUBLISHED_MESSAGES,
        PUBLISHED_BYTES,
        PUBLISHED_FRAMES,
        REFUSED,
        DUPLICATES,
        PUBLISH_SECONDS,
    ),
    "Reading": (READ_MESSAGES, READ_BYTES, FETCH_WAIT),
    "Queues": (
        DELIVERIES,
        SETTLED,
        DEAD_LETTERS,
        LEASES_LOST,
        QUEUE_MESSAGES,
        QUEUE_OLDEST,
        BLOCKED_KEYS,
        DELIVERY_WAIT,
        ACK_WAIT,
    ),
    "Groups": (LAG_MESSAGES, LAG_SECONDS, MEMBERS, REBALANCES, REBALANCE_SECONDS, COMMITS),
    "Time": (DELAYED, LATENESS, SCHEDULE_RUNS),
    "Transactions": (TRANSACTIONS, TRANSACTIONS_OPEN, TRANSACTION_SECONDS),
    "Traces": (TRACE_EVENTS, TRACE_EVENTS_DROPPED),
    "Storage": (
        LOG_BYTES,
        SYNC_SECONDS,
        SYNC_FAILURES,
        BUFFER_MESSAGES,
        BUFFER_BYTES,
        BUFFERED,
        WRITE_QUEUE,
        RETENTION_REMOVED,
        COMPACTION_REMOVED,
        PARTITIONS,
        RECOVERY,
        DISK_FREE,
    ),
    "Cluster": CLUSTER,
    "Node": (
        LOOP_LAG,
        CONNECTIONS,
        REQUESTS,
        REQUEST_SECONDS,
        MEMORY_HELD,
        BUILD_INFO,
        PROCESS_CPU,
        PROCESS_RESIDENT,
        PROCESS_VIRTUAL,
        PROCESS_FILES,
        PROCESS_MAX_FILES,
        PROCESS_START,
    ),
}
ALL: tuple[Series, ...] = tuple(series for area in AREAS.values() for series in area)
