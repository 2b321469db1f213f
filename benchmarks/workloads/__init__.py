"""What is measured of Quiver alone; each workload has a broker of its own on an empty directory."""

from collections.abc import Callable

from benchmarks.run import Run
from benchmarks.workloads.cluster import measure_cluster, measure_cluster_failover, measure_cluster_partitions
from benchmarks.workloads.delays import measure_delays
from benchmarks.workloads.messages.batch_sizes import measure_batch_sizes
from benchmarks.workloads.messages.fan import measure_fan
from benchmarks.workloads.messages.http_publish import measure_http_publish
from benchmarks.workloads.messages.small_frames import measure_small_frames
from benchmarks.workloads.node.import_time import measure_import_time
from benchmarks.workloads.node.loop_stall import measure_loop_stall
from benchmarks.workloads.node.memory import measure_memory
from benchmarks.workloads.node.startup_with_data import measure_startup
from benchmarks.workloads.node.startup_with_history import measure_start_up
from benchmarks.workloads.observe.console import measure_console
from benchmarks.workloads.observe.metrics import measure_observe
from benchmarks.workloads.observe.searching import measure_search
from benchmarks.workloads.observe.tracing import measure_tracing
from benchmarks.workloads.postgres_engine.rates import measure_postgres
from benchmarks.workloads.postgres_engine.sizes import measure_postgres_sizes
from benchmarks.workloads.postgres_engine.takeover import measure_postgres_takeover
from benchmarks.workloads.queues.drain import measure_queue_drain
from benchmarks.workloads.queues.latency import measure_queue_latency
from benchmarks.workloads.queues.queen import measure_queen
from benchmarks.workloads.queues.unsettled import measure_queue_unsettled
from benchmarks.workloads.spark.archive import measure_spark_archive
from benchmarks.workloads.spark.kafka_source import measure_spark_kafka
from benchmarks.workloads.spark.orders import measure_spark_orders
from benchmarks.workloads.spark.reads import measure_spark_curve, measure_spark_reads
from benchmarks.workloads.spark.writes import measure_spark_writes
from benchmarks.workloads.streams.commits import measure_group_commits
from benchmarks.workloads.streams.consume import measure_group_consume
from benchmarks.workloads.streams.many_groups import measure_many_groups
from benchmarks.workloads.streams.rebalance import measure_group_rebalance
from benchmarks.workloads.topics.compaction import measure_compaction
from benchmarks.workloads.topics.index_curve import measure_index_curve
from benchmarks.workloads.topics.partition_curve import measure_partition_curve
from benchmarks.workloads.topics.partitions_at_once import measure_partitions_at_once
from benchmarks.workloads.transactions import measure_transactions
from benchmarks.workloads.workers import measure_workers

OWN_WORKLOADS: dict[str, Callable[[Run], None]] = {
    "http": measure_http_publish,
    "memory": measure_memory,
    "startup": measure_startup,
    "start-up": measure_start_up,
    "import": measure_import_time,
    "stall": measure_loop_stall,
    "batches": measure_batch_sizes,
    "small-frames": measure_small_frames,
    "partitions-at-once": measure_partitions_at_once,
    "partition-curve": measure_partition_curve,
    "index-curve": measure_index_curve,
    "fan": measure_fan,
    "group-consume": measure_group_consume,
    "group-rebalance": measure_group_rebalance,
    "group-commits": measure_group_commits,
    "many-groups": measure_many_groups,
    "queue-drain": measure_queue_drain,
    "queen": measure_queen,
    "queue-latency": measure_queue_latency,
    "queue-unsettled": measure_queue_unsettled,
    "delays": measure_delays,
    "transactions": measure_transactions,
    "compaction": measure_compaction,
    "workers": measure_workers,
    "cluster": measure_cluster,
    "cluster-failover": measure_cluster_failover,
    "cluster-partitions": measure_cluster_partitions,
    "postgres": measure_postgres,
    "postgres-sizes": measure_postgres_sizes,
    "postgres-takeover": measure_postgres_takeover,
    "observe": measure_observe,
    "search": measure_search,
    "tracing": measure_tracing,
    "console": measure_console,
    "spark-reads": measure_spark_reads,
    "spark-orders": measure_spark_orders,
    "spark-kafka": measure_spark_kafka,
    "spark-curve": measure_spark_curve,
    "spark-writes": measure_spark_writes,
    "spark-archive": measure_spark_archive,
}
