"""What Quiver must reach, figure by figure, and whether a run reached it."""

from collections.abc import Iterable, Mapping
from typing import Literal, NamedTuple

import msgspec

from benchmarks.measurement import Measurement, Metrics, Results

Outcome = Literal["met", "best run only", "missed", "not measured"]
SIZE, LARGE_SIZE = 100, 1024
EVENTS = (
    "10000 topic changes",
    "1000000 offset commits",
    "1000000 frames of producers",
    "1000000 single messages",
    "100000 transactions",
    "1000000 leases and acks",
    "1000000 dead letters",
    "1000000 delays, pending",
    "1000000 delays, delivered",
)
POLL_MS = 500
"""How long a fetch waits for messages by default."""


class Figure(NamedTuple):
    """One measured number: the median of its repetitions, and the best."""

    median: float
    best: float

    def over(self, other: "Figure | None") -> "Figure | None":
        return None if other is None else Figure(self.median / other.median, self.best / other.best)


class Verdict(msgspec.Struct, frozen=True, kw_only=True):
    figure: str
    target: str
    unit: str
    outcome: Outcome
    median: float | None = None
    best: float | None = None


def judge(results: Results, peers: set[str], limits: Mapping[str, Metrics] | None = None) -> list[Verdict]:
    """A verdict for each figure; the median decides, a figure that only the best repetition reached is named so."""
    bulk = (_publish(results, peers), _large(results, limits or {}), _keyed(results), _consume(results, peers))
    streams = (*bulk, _latency(results), _operation(results))
    by_area = (*streams, _groups(results), _queues(results, peers), _delays(results), _exactly_once(results))
    spark = (
        _spark_reads(results),
        _spark_orders(results),
        _spark_kafka(results),
        _spark_writes(results),
        _spark_archive(results),
    )
    return [
        verdict
        for area in (*by_area, _workers(results), _cluster(results), _postgres(results), _looking(results), *spark)
        for verdict in area
    ]


def _publish(results: Results, peers: set[str]) -> Iterable[Verdict]:
    many, arrow = _rate(results, "quiver", "publish", "fsync"), _rate(results, "quiver-arrow", "publish", "fsync")
    single = _rate(results, "quiver-single", "publish", "fsync")
    interval = _rate(results, "quiver-interval", "publish", "interval")
    best_bulk = max((figure for figure in (many, arrow) if figure is not None), default=None)
    peer = _best_peer(results, "publish", peers)
    yield at_least("publish with send_many() or send_arrow(), fsync", 3e6, "msg/s", best_bulk)
    yield at_least("publish with send(), one call a message, fsync", 0.8e6, "msg/s", single)
    yield at_least("publish in bulk against the best peer", 4, "times", best_bulk and best_bulk.over(peer))
    against_kafka = best_bulk and best_bulk.over(_kafka(results, "publish", SIZE))
    yield at_least("publish in bulk, fsync, against Kafka", 4, "times", against_kafka)
    yield at_least("publish with fsync against interval", 0.8, "times", many and many.over(interval))


def _large(results: Results, limits: Mapping[str, Metrics]) -> Iterable[Verdict]:
    publish, consume = (_best_quiver(results, workload, LARGE_SIZE) for workload in ("publish", "consume"))
    kafka = _kafka(results, "publish", LARGE_SIZE)
    yield at_least("publish 1 KB, fsync, against Kafka", 2, "times", publish and publish.over(kafka))
    disk = limits.get("sequential write, fdatasync every MiB", {}).get("rate_mb")
    rate = Figure(disk * 1e6 / LARGE_SIZE, disk * 1e6 / LARGE_SIZE) if disk else None
    yield at_least(
        "publish 1 KB, fsync, against the disk's synced rate", 0.7, "times", publish and publish.over(rate)
    )
    json = _best_quiver(results, "publish", LARGE_SIZE, "JSON")
    ratio = json and json.over(_kafka(results, "publish", LARGE_SIZE, "JSON"))
    yield at_least("publish 1 KB of JSON, fsync, against Kafka", 1.5, "times", ratio)
    ratio = consume and consume.over(_kafka(results, "consume", LARGE_SIZE))
    yield at_least("consume 1 KB against Kafka", 3, "times", ratio)


def _keyed(results: Results) -> Iterable[Verdict]:
    def rate(workload: str, partitions: int, state: str = "") -> Figure | None:
        detail = f"{partitions} partitions{state}"
        return _figure(results.find("quiver", workload, size=SIZE, durability="fsync", detail=detail), "rate")

    yield at_least("publish by key to 1,000 partitions, fsync", 2e5, "msg/s", rate("keyed publish", 1_000))
    yield at_least("consume 1,000 partitions", 8e5, "msg/s", rate("keyed consume", 1_000))
    widest = rate("keyed publish", 10_000, " that have messages")
    yield at_least("publish by key to 10,000 partitions, fsync", 1e5, "msg/s", widest)


def _consume(results: Results, peers: set[str]) -> Iterable[Verdict]:
    batches = _rate(results, "quiver", "consume", "fsync")
    single = _rate(results, "quiver-single", "consume", "fsync")
    peer = _best_peer(results, "consume", peers)
    yield at_least("consume as batches", 5e6, "msg/s", batches)
    yield at_least("consume as single message objects", 1.2e6, "msg/s", single)
    yield at_least("consume as batches against the best peer", 3, "times", batches and batches.over(peer))
    yield at_least("consume as single objects against the best peer", 3, "times", single and single.over(peer))
    yield at_least("both at once", 1e6, "msg/s", _rate(results, "quiver", "both", "fsync"))


def _latency(results: Results) -> Iterable[Verdict]:
    fsync = results.find("quiver", "latency", size=SIZE, durability="fsync")
    interval = results.find("quiver-interval", "latency", size=SIZE, durability="interval")
    for share, target in (("p50", 0.25), ("p99", 1.0)):
        ack, disk = _figure(fsync, f"ack_{share}_ms"), _figure(fsync, f"disk_{share}_ms")
        above = Figure(ack.median - disk.median, ack.best - disk.best) if ack and disk else None
        yield at_most(f"publish to ack {share} with fsync, above the disk's", target, "ms", above)
    reached = _figure(fsync, "rate_achieved")
    yield at_least("publish to ack with fsync, 1,000 a second wanted", 990, "msg/s", reached)
    for figure, share, target in (
        ("ack", "p50", 0.25),
        ("ack", "p99", 0.8),
        ("receive", "p50", 0.35),
        ("receive", "p99", 1),
    ):
        measured = _figure(interval, f"{figure}_{share}_ms")
        yield at_most(f"publish to {figure} {share} with interval", target, "ms", measured)


def _operation(results: Results) -> Iterable[Verdict]:
    http = _first(results, "http", "32 connections", "fsync")
    startup = _first(results, "startup", "5 GB, 1000 partitions, clean stop")
    yield at_least("HTTP single publishes, 32 connections, fsync", 12_000, "msg/s", _figure(http, "rate"))
    yield at_most("HTTP publish p99, 32 connections, fsync", 8, "ms", _figure(http, "ack_p99_ms"))
    for durability in ("fsync", "interval"):
        request = _figure(_first(results, "http", "32 connections", durability), "broker_us_per_request")
        yield at_most(f"HTTP single publish, {durability}: broker's processor time", 90, "us", request)
        for partitions in (1, 1_000):
            frame = _first(results, "small-frames", f"frames of 50 messages, {partitions} partitions", durability)
            what = f"frame of 50 messages, {partitions:,} partitions, {durability}: broker's processor time"
            yield at_most(what, 100, "us", _figure(frame, "broker_us_per_frame"))
    memory = _figure(_first(results, "memory", "5 GB written and read"), "growth_mb")
    yield at_most("growth of resident memory while 5 GB pass", 100, "MB", memory)
    yield at_most("start-up with 5 GB and 1,000 partitions", 2, "s", _figure(startup, "ready_s"))
    yield at_most("import quiver", 100, "ms", _figure(_first(results, "import", "import quiver"), "took_ms"))
    shell = _figure(_first(results, "import", "quiver --help"), "took_ms")
    yield at_most("quiver --help, from the shell", 200, "ms", shell)
    stall = _figure(_first(results, "stall", "with slow clients"), "probe_max_ms")
    yield at_most("longest stall while slow clients read", 50, "ms", stall)


def _groups(results: Results) -> Iterable[Verdict]:
    rebalance = _first(results, "group-rebalance", "10 members, 100 partitions, 100 joins and leaves")
    yield at_most("a member joins or leaves: settled, p99", 1_000, "ms", _figure(rebalance, "settle_p99_ms"))
    gap = _figure(rebalance, "staying_gap_max_ms")
    yield at_most("the same: longest gap in reading what does not move", POLL_MS, "ms", gap)
    for read_as in ("batches", "messages"):
        group = _figure(_first(results, "group-consume", f"{read_as}, through a group"), "rate")
        alone = _figure(_first(results, "group-consume", f"{read_as}, without a group"), "rate")
        ratio = group and group.over(alone)
        yield at_least(f"consume as {read_as} through a group against without one", 0.8, "times", ratio)
    commits = _first(results, "group-commits", "64 members")
    yield at_least("commits of group members, fsync", 5_000, "commits/s", _figure(commits, "rate"))
    for when in ("made", "kill -9", "clean stop"):
        groups = _first(results, "many-groups", f"10000 groups, {when}")
        yield at_most(f"resident memory of 10,000 groups, {when}", 500, "MB", _figure(groups, "growth_mb"))
        if when != "made":
            yield at_most(f"start-up with 10,000 groups, {when}", 5, "s", _figure(groups, "ready_s"))


def _queues(results: Results, peers: set[str]) -> Iterable[Verdict]:
    goals = (
        ("work in batches", "received and acked in batches of 100", 3e5),
        ("work one by one", "acked one by one", 5e5),
    )
    for workload, name, goal in goals:
        rate, peer = _rate(results, "quiver", workload, "fsync"), _best_peer(results, workload, peers)
        yield at_least(f"queue: {name}, durable acks", goal, "msg/s", rate)
        yield at_least(f"queue: {name}, against the best peer", 1, "times", rate and rate.over(peer))
    raw = _figure(_first(results, "queue-latency", "paced fdatasync"), "sync_p99_ms")
    ack = _figure(_first(results, "queue-latency", "receive to ack"), "ack_p99_ms")
    above = Figure(ack.median - raw.median, ack.best - raw.best) if ack and raw else None
    yield at_most("queue: receive to ack p99 at 1,000 msg/s, above the raw fdatasync p99", 3, "ms", above)
    drain = _figure(_first(results, "queue-drain", "10 consumers"), "rate")
    yield at_least("queue: drain of 10 partitions by 10 consumers, received and acked", 5e5, "msg/s", drain)
    popped = _figure(_first(results, "queen", "drain"), "rate")
    yield at_least("Queen's interface: the same drain over HTTP", 3e5, "msg/s", popped)
    single = _figure(_first(results, "queen", "single pushes"), "rate")
    published = _figure(_first(results, "http", "32 connections", "fsync"), "rate")
    share = single and published and single.over(published)
    yield at_least("Queen's interface: single pushes, against our own route", 1, "times", share)
    wide = _figure(_first(results, "queen", "100000 partitions"), "growth_mb")
    yield at_most("Queen's interface: memory of 100,000 partitions", 200, "MB", wide)
    unsettled = _figure(_first(results, "queue-unsettled", ""), "growth_mb")
    yield at_most("queue: memory of 1 M unsettled messages in a group", 500, "MB", unsettled)


def _delays(results: Results) -> Iterable[Verdict]:
    pending = _first(results, "delays", "1000000 pending")
    yield at_least("delays: scheduled with 1 M pending", 5e4, "msg/s", _figure(pending, "rate"))
    yield at_most("delays: memory for each of 1 M pending", 200, "B", _figure(pending, "bytes_each"))
    yield at_most("delays: cancel with 1 M pending, p99", 5, "ms", _figure(pending, "cancel_p99_ms"))
    yield at_most("delays: a page of the listing with 1 M pending, p99", 5, "ms", _figure(pending, "list_p99_ms"))
    start = _figure(_first(results, "delays", "1000000 pending, start"), "ready_s")
    yield at_most("delays: start-up with 1 M pending", 5, "s", start)
    for rate in (5_000, 10_000):
        late = _figure(_first(results, "delays", f"{rate} a second fall due"), "late_max_ms")
        yield at_most(f"delays: delivered after their time at most, {rate:,} a second", 100, "ms", late)


def _exactly_once(results: Results) -> Iterable[Verdict]:
    yield from _start_up(results)
    yield from _transactions(results)
    yield from _compaction(results)


def _start_up(results: Results) -> Iterable[Verdict]:
    for events in EVENTS:
        ready = _figure(_first(results, "start-up", f"{events}, kill -9"), "ready_s")
        yield at_most(f"start-up after {events} and kill -9", 2, "s", ready)


def _transactions(results: Results) -> Iterable[Verdict]:
    def rate(detail: str) -> Figure | None:
        return _figure(_first(results, "transactions", detail), "rate")

    yield at_least("transactions: 1,000 messages each, 1 producer, fsync", 4e5, "msg/s", rate("1,000 messages"))
    large, many = rate("20,000 messages"), rate("1,000 messages a transaction, 8 producers")
    best = max((figure for figure in (large, many) if figure is not None), default=None)
    ratio = best and best.over(rate("plain"))
    yield at_least("transactions: 20,000 messages each or 8 producers, against plain", 0.6, "times", ratio)
    commit = _first(results, "transactions", "commit over 10 partitions")
    took, one = _figure(commit, "commit_p50_ms"), _figure(commit, "one_sync_p50_ms")
    yield at_most(
        "transactions: commit over 10 partitions p50, syncs of the disk", 2, "syncs", took and took.over(one)
    )


def _compaction(results: Results) -> Iterable[Verdict]:
    alone = _first(results, "compaction", "alone")
    yield at_least("compaction: alone", 100, "MB/s", _figure(alone, "rate"))
    yield at_most("compaction: left of a topic with 10 versions a key", 10, "%", _figure(alone, "left_percent"))
    yield at_most("compaction: longest stall beside it", 50, "ms", _figure(alone, "probe_max_ms"))
    beside = _first(results, "compaction", "publishing beside compaction")
    rate, usual = _figure(beside, "rate"), _figure(_first(results, "compaction", "publishing alone"), "rate")
    yield at_least("compaction: publishing beside it against alone", 0.6, "times", rate and rate.over(usual))


def _postgres(results: Results) -> Iterable[Verdict]:
    """A broker on PostgreSQL, beside a table that is used as a queue in the same PostgreSQL."""

    def figure(workload: str, metric: str = "rate", detail: str = "4 partitions") -> Figure | None:
        return _figure(_first(results, workload, detail, "fsync"), metric)

    def table(workload: str) -> Figure | None:
        found = results.find("postgres-table", workload, size=SIZE, durability="synced at every commit (default)")
        return _figure(found, "rate")

    publish, consume = figure("postgres publish"), figure("postgres consume")
    yield at_least("PostgreSQL: publish, synchronous_commit on", 1e6, "msg/s", publish)
    yield at_least("PostgreSQL: consume as batches", 5e6, "msg/s", consume)
    yield at_least("PostgreSQL: publish against SKIP LOCKED", 3, "times", publish and publish.over(table("publish")))
    yield at_least("PostgreSQL: consume against SKIP LOCKED", 10, "times", consume and consume.over(table("consume")))
    latency = results.find("quiver-postgres", "latency", size=SIZE, durability="fsync")
    yield at_most("PostgreSQL: publish to ack p50", 2, "ms", _figure(latency, "ack_p50_ms"))
    small = figure("postgres small frames", detail="500 logs")
    yield at_least("PostgreSQL: small frames over 500 logs", 50_000, "frames/s", small)
    for kind, seconds in (("kill -9 of", 3), ("SIGTERM to", 0.5)):
        pause = figure("takeover", "pause_p99_ms", f"{kind} a broker")
        yield at_most(f"PostgreSQL: {kind} one of two brokers to the next ack, p99", seconds * 1e3, "ms", pause)
    largest = figure("postgres sizes", "times_kept", "largest")
    yield at_most("PostgreSQL: tables while 50 M messages go through, against what is kept", 3, "times", largest)


def _workers(results: Results) -> Iterable[Verdict]:
    """Two workers against one, measured in turns."""

    def figure(detail: str, metric: str, durability: str = "") -> Figure | None:
        return _figure(_first(results, "workers", detail, durability), metric)

    def ratio(detail: str, metric: str, durability: str = "fsync") -> Figure | None:
        one, two = (figure(f"{detail}, {count} workers", metric, durability) for count in (1, 2))
        return two and two.over(one)

    for durability in ("fsync", "interval"):
        times = ratio("HTTP, 32 connections", "rate", durability)
        yield at_least(f"HTTP single publishes, {durability}: 2 workers against 1", 1.35, "times", times)
    for acks in ("gathered", "awaited"):
        times = ratio(f"work, acks {acks}, 4 consumers, 16 partitions", "rate")
        yield at_least(f"work by 4 consumers, acks {acks}: 2 workers against 1", 1.3, "times", times)
    for kind in ("publish", "consume"):
        times = ratio(f"bulk {kind}, 16 partitions", "cpu_us_per_message")
        yield at_most(f"processor time of bulk {kind}: 2 workers against 1", 1.05, "times", times)
    yield at_most("forwarded publish, p50", 0.3, "ms more", figure("HTTP, forwarded", "more_p50_ms", "interval"))
    killed = "kill -9 of a worker"
    yield at_most("killed worker serves again", 500, "ms", figure(killed, "served_again_ms", "fsync"))
    yield at_most("longest pause of another worker's client", 50, "ms", figure(killed, "others_pause_ms", "fsync"))
    one, four = (figure(f"start, {count} workers", "ready_s") for count in (1, 4))
    longer = Figure(four.median - one.median, four.best - one.best) if one and four else None
    yield at_most("start with 4 workers", 0.5, "s more", longer)
    yield at_most("memory of an idle worker of 4", 150, "MB", figure("start, 4 workers", "worker_mb"))


def _cluster(results: Results) -> Iterable[Verdict]:
    """Three nodes with replicas on one machine, beside one node."""

    def rate(subject: str, workload: str) -> Figure | None:
        return _figure(results.find(subject, workload, size=SIZE, durability="fsync", detail="6 partitions"), "rate")

    publish, one = rate("quiver-cluster", "cluster publish"), rate("quiver", "cluster publish")
    yield at_least("cluster: publish with three replicas, all synced", 0.8e6, "msg/s", publish)
    yield at_least("cluster: publish against one node", 0.4, "times", publish and publish.over(one))
    latency = results.find("quiver-cluster", "latency", size=SIZE, durability="fsync")
    yield at_most("cluster: publish to ack p50", 5, "ms", _figure(latency, "ack_p50_ms"))
    pauses = {"kill -9 of a leader": 4_000, "kill -9 of a leader and of etcd's": 5_000, "SIGTERM to a leader": 300}
    for kind, most in pauses.items():
        pause = _figure(_first(results, "cluster", kind, "fsync"), "pause_p99_ms")
        yield at_most(f"cluster: {kind} to the next ack, p99", most, "ms", pause)
    idle = _figure(_first(results, "cluster", "idle, 1000 partitions"), "core_percent_per_node")
    yield at_most("cluster: idle with 1,000 partitions", 5, "% of a core per node", idle)
    away = _first(results, "cluster", "a node that was away", "fsync")
    yield at_most("cluster: a node that was away for 1 GB is in sync", 15, "s", _figure(away, "in_sync_seconds"))
    wide = _first(results, "cluster", "10000 partitions", "fsync")
    yield at_most("cluster: start with 10,000 partitions", 10, "s", _figure(wide, "start_seconds"))
    yield at_most("cluster: 10,000 partitions ack again after a kill", 10, "s", _figure(wide, "failover_seconds"))


def _looking(results: Results) -> Iterable[Verdict]:
    """What it may cost to look at a broker: metrics, search, tails, traces, the console."""

    def figure(workload: str, detail: str, metric: str) -> Figure | None:
        return _figure(_first(results, workload, detail), metric)

    yield at_most("scrape of 1,000 topics, 100 groups", 20, "ms", figure("observe", "scrapes", "loop_ms_per_scrape"))
    yield at_most("ten streams of the overview", 5, "% of a core", figure("observe", "10 streams", "core_percent"))
    yield at_most("life of a message, p99", 50, "ms", figure("observe", "lives", "life_p99_ms"))
    yield at_least("search in JSON, a field", 1e6, "msg/s", figure("search", "a field", "rate"))
    yield at_most("search: slowest response meanwhile, p99", 20, "ms", figure("search", "a field", "probe_p99_ms"))
    yield at_least("live tail: published meanwhile", 95_000, "msg/s", figure("search", "live tail", "rate_published"))
    for way in ("send_many", "send"):
        sampled, plain = (figure("tracing", f"{way}, {share} sampled", "us_per_message") for share in ("1%", "0%"))
        ratio = sampled and sampled.over(plain)
        yield at_most(f"{way} with 1 % sampled against none", 1.03, "times", ratio)
    yield at_most("console: first paint", 500, "ms", figure("console", "1000 topics", "first_paint_ms"))
    yield at_most("console: page change, p99", 200, "ms", figure("console", "1000 topics", "page_change_p99_ms"))
    yield at_most("console: ten tabs", 5, "% of a core", figure("console", "10 tabs", "core_percent"))


def _spark_reads(results: Results) -> Iterable[Verdict]:
    def rate(detail: str) -> Figure | None:
        return _figure(_first(results, "spark-reads", detail), "rate")

    files, parquet = rate("full scan of segment files"), rate("full scan of Parquet")
    yield at_least("spark: full scan through the broker", 2e6, "rows/s", rate("full scan through the broker"))
    yield at_least("spark: full scan of segment files", 2.5e6, "rows/s", files)
    yield at_least("spark: full scan of segment files against Parquet", 0.8, "times", files and files.over(parquet))
    yield at_least("spark: count through the broker", 2e7, "rows/s", rate("count through the broker"))
    yield at_least("spark: count of one column", 5e6, "rows/s", rate("count of one column through the broker"))
    ours, theirs = rate("aggregation through the broker"), rate("aggregation of Parquet")
    yield at_least("spark: aggregation through the broker against Parquet", 0.6, "times", ours and ours.over(theirs))
    yield at_least("spark: stream with availableNow, 2 M rows a batch", 1.2e6, "rows/s", rate("availableNow"))
    default = _first(results, "spark-reads", "publish to sink, default trigger")
    yield at_most("spark: publish to sink, default trigger, p50", 600, "ms", _figure(default, "sink_p50_ms"))
    whole = _first(results, "spark-reads", "session and workers")
    yield at_most("spark: start of a session", 10, "s", _figure(whole, "start_s"))
    large, small = (_first(results, "spark-curve", f"{count} messages") for count in (50_000_000, 10_000_000))
    seconds, fifth = _figure(large, "seconds"), _figure(small, "seconds")
    yield at_most("spark: scan of 50 M rows against 10 M", 5.5, "times", seconds and seconds.over(fifth))
    peak = _figure(_first(results, "spark-curve", "workers") or whole, "worker_peak_mb")
    yield at_most("spark: memory of a Python worker", 400, "MB", peak)


def _spark_orders(results: Results) -> Iterable[Verdict]:
    def figure(detail: str, metric: str) -> Figure | None:
        return _figure(_first(results, "spark-orders", detail), metric)

    parquet = figure("full scan of Parquet", "rate")
    for where, target in (("of segment files", 0.8), ("through the broker", 0.6)):
        ours = figure(f"full scan {where}", "rate")
        ratio = ours and ours.over(parquet)
        yield at_least(f"spark: full scan of JSON orders {where} against Parquet", target, "times", ratio)
    typed, plain = figure("typed aggregation", "rate"), figure("aggregation by from_json", "rate")
    ratio = typed and typed.over(plain)
    yield at_least("spark: typed aggregation of JSON orders against from_json", 1.5, "times", ratio)
    found = figure("look-up of a key through the broker", "seconds")
    yield at_most("spark: look-up of a key among 1.5 M orders", 0.5, "s", found)
    first = figure("first count through the broker", "first_result_s")
    yield at_most("spark: first result of a new session", 12, "s", first)
    start = figure("first count through the broker", "start_s")
    yield at_most("spark: start of a session, with an archive of classes", 5, "s", start)


def _spark_kafka(results: Results) -> Iterable[Verdict]:
    def rate(subject: str, detail: str) -> Figure | None:
        return _figure(results.find(subject, "spark-kafka", size=SIZE, detail=detail), "rate")

    for where in ("", " by default, of the files on this machine"):
        ours = rate("quiver", f"full scan{where}")
        ratio = ours and ours.over(rate("kafka", "full scan"))
        yield at_least(f"spark: full scan{where} against Spark's Kafka source", 4, "times", ratio)
    ours = rate("quiver", "availableNow")
    ratio = ours and ours.over(rate("kafka", "availableNow"))
    yield at_least("spark: availableNow against Spark's Kafka source", 2, "times", ratio)


def _spark_writes(results: Results) -> Iterable[Verdict]:
    for detail in ("values", "keys and values"):
        rate = _figure(_first(results, "spark-writes", detail), "rate")
        yield at_least(f"Spark: a DataFrame of {detail} into a topic, exactly once", 6e5, "rows/s", rate)
    one, several = (
        _figure(_first(results, "spark-writes", f"rows with topics, {where}"), "rate")
        for where in ("into one topic", "each into its topic")
    )
    ratio = several and several.over(one)
    yield at_least("Spark: rows into eight topics by a column against one topic", 0.9, "times", ratio)


def _spark_archive(results: Results) -> Iterable[Verdict]:
    for where in ("through the broker", "of segment files"):
        ours, sparks = (
            _figure(_first(results, "spark-archive", f"{what} {where}"), "rate")
            for what in ("archive", "Spark's Parquet writer")
        )
        yield at_least(f"Spark: archive {where}", 2.5e6, "rows/s", ours)
        yield at_least(f"Spark: archive {where} against Spark's writer", 2, "times", ours and ours.over(sparks))
        stored = _figure(_first(results, "spark-archive", f"archive to an object store {where}"), "rate")
        yield at_least(
            f"Spark: archive to S3 {where} against a directory", 0.7, "times", stored and stored.over(ours)
        )


def at_least(figure: str, target: float, unit: str, measured: Figure | None) -> Verdict:
    if measured is None:
        return Verdict(figure=figure, target=f"at least {_number(target)}", unit=unit, outcome="not measured")
    outcome: Outcome = (
        "met" if measured.median >= target else "best run only" if measured.best >= target else "missed"
    )
    return _verdict(figure, f"at least {_number(target)}", unit, outcome, measured)


def at_most(figure: str, target: float, unit: str, measured: Figure | None) -> Verdict:
    if measured is None:
        return Verdict(figure=figure, target=f"under {_number(target)}", unit=unit, outcome="not measured")
    outcome: Outcome = "met" if measured.median < target else "best run only" if measured.best < target else "missed"
    return _verdict(figure, f"under {_number(target)}", unit, outcome, measured)


def best_of(measurements: Iterable[Measurement]) -> Figure | None:
    """The figure with the highest median rate."""
    figures = (_figure(measurement, "rate") for measurement in measurements)
    return max((figure for figure in figures if figure is not None), default=None)


def _verdict(figure: str, target: str, unit: str, outcome: Outcome, measured: Figure) -> Verdict:
    return Verdict(
        figure=figure, target=target, unit=unit, outcome=outcome, median=measured.median, best=measured.best
    )


def _kafka(results: Results, workload: str, size: int, detail: str = "") -> Figure | None:
    """The best of its durabilities and clients."""
    return best_of(m for m in _kind(results, workload, size, detail) if m.subject.startswith("kafka"))


def _best_quiver(results: Results, workload: str, size: int, detail: str = "") -> Figure | None:
    """The best way to use it with fsync."""
    ours = (m for m in _kind(results, workload, size, detail) if m.subject.startswith("quiver"))
    return best_of(m for m in ours if m.durability == "fsync")


def _kind(results: Results, workload: str, size: int, detail: str) -> list[Measurement]:
    """Random bodies (no detail) or JSON, whose compression is the user's choice."""
    return [m for m in results.of(workload, size) if m.detail.partition(",")[0] == detail]


def _best_peer(results: Results, workload: str, peers: set[str]) -> Figure | None:
    return best_of(m for m in _kind(results, workload, SIZE, "") if m.subject in peers)


def _rate(results: Results, subject: str, workload: str, durability: str) -> Figure | None:
    return _figure(results.find(subject, workload, size=SIZE, durability=durability), "rate")


def _first(results: Results, workload: str, detail: str, durability: str | None = None) -> Measurement | None:
    """The first measurement of a workload whose detail begins with the text."""
    for measurement in results.of(workload):
        if measurement.detail.startswith(detail) and durability in (None, measurement.durability):
            return measurement
    return None


def _figure(measurement: Measurement | None, metric: str) -> Figure | None:
    if measurement is None or not measurement.values(metric):
        return None
    return Figure(measurement.median(metric), measurement.best(metric))


def _number(value: float) -> str:
    return f"{value / 1e6:g} M" if value >= 1e5 else f"{value:,g}"
