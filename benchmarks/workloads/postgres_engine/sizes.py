"""The size of a broker's tables in PostgreSQL while messages go in and out and retention removes them."""

import itertools
import time
from typing import Any, NamedTuple

import quiver
from benchmarks.payload import Payload
from benchmarks.peers.postgres import Postgres
from benchmarks.roles import Role, Watch, run_roles
from benchmarks.run import Run
from benchmarks.servers.broker import Broker
from benchmarks.servers.postgres import USER
from benchmarks.servers.server import HOST

MESSAGES = 50_000_000
PARTITIONS = 4
ROUNDS = 50
CHUNK = 10_000
RETENTION_BYTES = 64 << 20
"""Of each partition; about what 600,000 messages take."""
SIZES = """
select sum(pg_total_relation_size(c.oid)), sum(pg_stat_get_live_tuples(c.oid)), sum(pg_stat_get_dead_tuples(c.oid)),
    sum(pg_total_relation_size(c.oid)) filter (where c.relname !~ '^frame')
from pg_class c join pg_namespace n on n.oid = c.relnamespace
where n.nspname = 'sizes' and c.relkind = 'r'
"""
KEPT = "select coalesce(sum(octet_length(data)), 0) from sizes.frame"
NAME = ("quiver-postgres", "postgres sizes")
TIMEOUT = 1_800


class Sample(NamedTuple):
    messages: int
    seconds: float
    table_bytes: int
    """Tables with their indexes and large values."""
    kept_bytes: int
    """Of the frames that retention has left."""
    live_rows: int
    dead_rows: int
    other_bytes: int
    """Of all tables but that of frames."""


def measure_postgres_sizes(run: Run) -> None:
    server = Postgres("postgres-sizes", synchronous_commit=True)
    if (reason := server.missing()) is not None:
        run.skip("postgres-sizes", reason)
        return
    try:
        server.start(run.scratch)
        address = f"postgresql://{USER}@{HOST}:{server.port}/postgres?schema=sizes"
        with Broker(run.scratch / "on-postgres", "--storage", address) as broker:
            count = run.scale.count(MESSAGES) // ROUNDS // CHUNK * CHUNK or CHUNK
            role = Role(_in_and_out, (broker.address, server.port, count, run.scale.payloads[0]))
            samples = run_roles({"in and out": role}, timeout=TIMEOUT)["in and out"].result
    finally:
        server.stop()
    _record(run, samples)


def _record(run: Run, samples: list[Sample]) -> None:
    step = max(1, len(samples) // 10)
    largest = max(sample.table_bytes for sample in samples)
    for sample in samples[step - 1 :: step]:
        detail = f"after {sample.messages / 1e6:g} M messages"
        with run.measuring(
            "quiver-postgres", "postgres sizes", size=100, durability="fsync", detail=detail
        ) as metrics:
            metrics["seconds"] = sample.seconds
            metrics["tables_mb"] = sample.table_bytes / 1e6
            metrics["kept_mb"] = sample.kept_bytes / 1e6
            metrics["other_tables_mb"] = sample.other_bytes / 1e6
            metrics["live_rows"], metrics["dead_rows"] = sample.live_rows, sample.dead_rows
    with run.measuring(
        "quiver-postgres", "postgres sizes", size=100, durability="fsync", detail="largest"
    ) as metrics:
        metrics["tables_mb"] = largest / 1e6
        metrics["times_kept"] = largest / (RETENTION_BYTES * PARTITIONS)


def _in_and_out(address: str, port: int, count: int, payload: Payload, watch: Watch) -> list[Sample]:
    """So many messages in and out in each of the rounds, and the sizes after it."""
    import psycopg

    samples: list[Sample] = []
    bodies = itertools.cycle(payload.different(CHUNK * 10))
    with (
        psycopg.connect(f"host={HOST} port={port} user={USER} dbname=postgres", autocommit=True) as database,
        quiver.connect(address) as client,
    ):
        client.topics.create("sizes", partitions=PARTITIONS, segment_bytes="8MiB", retention_bytes=RETENTION_BYTES)
        watch.start()
        with client.producer("sizes") as producer, client.read("sizes", start="earliest") as reader:
            batches: Any = reader.batches()
            received = 0
            for number in range(1, ROUNDS + 1):
                for _ in range(count // CHUNK):
                    producer.send_many(list(itertools.islice(bodies, CHUNK)))
                producer.flush()
                while received < number * count:
                    received += next(batches).num_rows
                samples.append(_sample(database, number * count, watch))
        watch.stop()
    return samples


def _sample(database: Any, messages: int, watch: Watch) -> Sample:
    total, live, dead, other = database.execute(SIZES).fetchone()
    kept = database.execute(KEPT).fetchone()[0]
    return Sample(messages, time.monotonic() - watch.started, int(total), int(kept), int(live), int(dead), int(other))
