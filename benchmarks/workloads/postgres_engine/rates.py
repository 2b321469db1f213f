"""A broker on PostgreSQL beside a table that is used as a queue (SKIP LOCKED) in the same PostgreSQL."""

import asyncio
import time

from benchmarks.comparison import bulk, latency, publish_and_consume, warm_up
from benchmarks.peers.postgres import Postgres
from benchmarks.quiver_subject import QuiverSubject
from benchmarks.roles import Role, Watch, run_roles
from benchmarks.run import Run
from benchmarks.servers.broker import Broker
from benchmarks.servers.postgres import USER
from benchmarks.servers.server import HOST

PARTITIONS = 4
BULK_MESSAGES = 5_000_000
SMALL_LOGS = 500
FULL_ROUNDS = 100


def measure_postgres(run: Run) -> None:
    table = Postgres("postgres-table", synchronous_commit=True)
    if (reason := table.missing()) is not None:
        run.skip("postgres", reason)
        return
    try:
        table.start(run.scratch)
        address = f"postgresql://{USER}@{HOST}:{table.port}/postgres"
        for _ in run.repetitions():  # before there are tables for the server to clean up
            _small_frames(run, f"{address}?schema=engine")
        with Broker(run.scratch / "on-postgres", "--storage", f"{address}?schema=bench") as broker:
            _compare(run, broker, table)
    finally:
        table.stop()


def _compare(run: Run, broker: Broker, table: Postgres) -> None:
    payload = run.scale.payloads[0]
    subject = QuiverSubject(
        "quiver-postgres", broker, durability="fsync", publish_with="send_many", read_with="batches"
    )
    warm_up(run, table)
    for _ in run.repetitions():
        count = run.scale.count(BULK_MESSAGES)
        subject.reset_wide(PARTITIONS)
        detail = f"{PARTITIONS} partitions"
        bulk(run, subject, "postgres publish", payload, Role(subject.produce, (count, payload)), count, detail)
        bulk(run, subject, "postgres consume", payload, Role(subject.consume, (count,)), count, detail)
        latency(run, subject, payload)
        publish_and_consume(run, table, payload)
    subject.stop()


def _small_frames(run: Run, address: str) -> None:
    """The engine alone: single messages to many logs at once, each synced before the next of its log."""
    rounds = max(3, int(FULL_ROUNDS * run.scale.share))
    with run.measuring(
        "quiver-postgres", "postgres small frames", size=100, durability="fsync", detail=f"{SMALL_LOGS} logs"
    ) as metrics:
        outcome = run_roles({"append": Role(_append_small, (address, rounds))})["append"]
        metrics["rate"] = SMALL_LOGS * rounds / outcome.seconds


def _append_small(address: str, rounds: int, watch: Watch) -> None:
    import uvloop  # as the broker

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(_append_rounds(address, rounds, watch))


async def _append_rounds(address: str, rounds: int, watch: Watch) -> None:
    from quiver.app.garbage import keep_collections_short
    from quiver.records.header import stamp, unpack_header
    from quiver.records.single import NO_IDENTITY, single_frame
    from quiver.storage.port import LogOptions
    from quiver.storage.postgres.database.address import parse_address
    from quiver.storage.postgres.log import PostgresLog
    from quiver.storage.postgres.storage import PostgresStorage

    collecting = asyncio.create_task(keep_collections_short())  # as in the broker
    storage = PostgresStorage(parse_address(address))
    await storage.open()
    now_ms = time.time_ns() // 1_000_000
    frame = single_frame(bytes(100), None, timestamp_ms=now_ms, priority=2, identity=NO_IDENTITY)
    header = unpack_header(frame)
    logs = [await storage.open_log(f"small/{number}", LogOptions()) for number in range(SMALL_LOGS)]

    async def append(log: PostgresLog, count: int) -> None:
        loop = asyncio.get_running_loop()
        for _ in range(count):
            place = {"base_offset": log.end_offset, "leader_epoch": 1, "append_time_ms": log.last_append_time_ms}
            ended: asyncio.Future[Exception | None] = loop.create_future()
            assert log.begin_append([stamp(frame, header, **place)], ended.set_result), "nobody else appends to it"
            if (error := await ended) is not None:
                raise error

    await asyncio.gather(*(append(log, 1) for log in logs))
    watch.start()
    await asyncio.gather(*(append(log, rounds) for log in logs))
    watch.stop()
    await storage.delete_logs("small")
    await storage.close()
    collecting.cancel()
