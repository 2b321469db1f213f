"""PostgreSQL as a queue with psycopg 3: COPY to publish, SELECT ... FOR UPDATE SKIP LOCKED to receive.

Publish: COPY of a batch of rows a transaction. Receive: one UPDATE over locked rows hides a batch for a minute and
returns it, one DELETE acknowledges it. For latency: single INSERTs and a NOTIFY from a trigger.
"""

import contextlib
import itertools
import time
from pathlib import Path
from typing import Any

from benchmarks.payload import Payload, age_seconds, paced, stamped
from benchmarks.roles import Watch
from benchmarks.servers.postgres import USER, PostgresServer, postgres_program
from benchmarks.servers.presence import absence
from benchmarks.servers.server import HOST
from benchmarks.subject import Subject

BATCH = 1_000
PIPELINED_ACKS = 100
TABLE = """
DROP TABLE IF EXISTS bench;
CREATE TABLE bench (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    attempts int NOT NULL DEFAULT 0,
    visible_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    body bytea NOT NULL
);
CREATE OR REPLACE FUNCTION bench_notify() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN NOTIFY bench; RETURN NULL; END';
CHECKPOINT
"""
TRIGGER = "CREATE TRIGGER bench AFTER INSERT ON bench FOR EACH STATEMENT EXECUTE FUNCTION bench_notify()"
RECEIVE = """
WITH taken AS (
    SELECT id FROM bench WHERE visible_at <= clock_timestamp() ORDER BY id LIMIT %s FOR UPDATE SKIP LOCKED
)
UPDATE bench SET visible_at = clock_timestamp() + interval '1 minute', attempts = attempts + 1
FROM taken WHERE bench.id = taken.id RETURNING bench.id, bench.body
"""
ACKNOWLEDGE = "DELETE FROM bench WHERE id = ANY(%s)"


class Postgres(Subject):
    client = f"psycopg 3; COPY of {BATCH} rows a commit, SKIP LOCKED receive of {BATCH}, one DELETE a batch"
    bulk_messages = 150_000
    both_messages = 60_000
    work_messages = 40_000

    def __init__(self, name: str, *, synchronous_commit: bool) -> None:
        super().__init__()
        self.name = name
        self.synchronous_commit = synchronous_commit
        self._server: PostgresServer | None = None
        self.durability = "synced at every commit (default)" if synchronous_commit else "synced within 0.6 s"

    def missing(self) -> str | None:
        return absence(program="postgresql", found=postgres_program("postgres"), module="psycopg")

    def start(self, scratch: Path) -> None:
        settings = {
            "shared_buffers": "1GB",
            "max_wal_size": "8GB",
            "synchronous_commit": "on" if self.synchronous_commit else "off",
        }
        self._server = PostgresServer(scratch / self.name, settings)
        self._processes = [self._server.start()]
        self.port, self.version = self._server.port, self._server.version

    def stop(self) -> None:
        if self._server is not None:
            self._server.stop()
        self._server, self._processes = None, []

    def reset(self) -> None:
        with self._connect() as connection:
            for statement in TABLE.split(";\n"):
                connection.execute(statement)

    def produce(self, count: int, payload: Payload, watch: Watch) -> None:
        cursor, rows = self._connect().cursor(), itertools.cycle([(body,) for body in payload.different(count)])
        watch.start()
        for start in range(0, count, BATCH):
            with cursor.copy("COPY bench (body) FROM STDIN (FORMAT BINARY)") as copy:
                copy.set_types(["bytea"])
                for row in itertools.islice(rows, min(BATCH, count - start)):
                    copy.write_row(row)
        watch.stop()

    def consume(self, count: int, watch: Watch) -> None:
        cursor = self._connect().cursor(binary=True)
        received = 0
        watch.start()
        while received < count:
            rows = self._receive(cursor, BATCH)
            if not rows:
                time.sleep(0.001)
            received += len(rows)
        watch.stop()

    def work(self, count: int, batch: int, watch: Watch) -> None:
        """Single acknowledgements are a DELETE each, pipelined in hundreds that share a commit: one each is ten times
        slower."""
        connection = self._connect()
        cursor = connection.cursor(binary=True)
        received = 0
        watch.start()
        while received < count:
            if batch > 1:
                received += len(self._receive(cursor, batch))
                continue
            rows = cursor.execute(RECEIVE, (PIPELINED_ACKS,), prepare=True).fetchall()
            with connection.pipeline():
                for row in rows:
                    connection.execute(ACKNOWLEDGE, ([row[0]],), prepare=True)
            received += len(rows)
        watch.stop()

    def produce_paced(self, count: int, payload: Payload, rate: float, watch: Watch) -> list[float]:
        cursor, pool, took = self._connect().cursor(binary=True), payload.endless(count), []
        cursor.execute(TRIGGER)
        watch.start()
        for _ in paced(count, rate):
            begin = time.monotonic()
            cursor.execute("INSERT INTO bench (body) VALUES (%s)", (stamped(next(pool)),), prepare=True)
            took.append(time.monotonic() - begin)
        watch.stop()
        return took

    def consume_stamped(self, count: int, watch: Watch) -> list[float]:
        connection = self._connect()
        cursor = connection.cursor(binary=True)
        connection.execute("LISTEN bench")
        ages: list[float] = []
        watch.start()
        while len(ages) < count:
            rows = self._receive(cursor, 100)
            ages.extend(age_seconds(body) for _, body in rows)
            if not rows:
                for _ in connection.notifies(timeout=1, stop_after=1):
                    pass
        watch.stop()
        return ages

    def _receive(self, cursor: Any, count: int) -> list[tuple[int, bytes]]:
        rows: list[tuple[int, bytes]] = cursor.execute(RECEIVE, (count,), prepare=True).fetchall()
        if rows:
            cursor.execute(ACKNOWLEDGE, ([row[0] for row in rows],), prepare=True)
        return rows

    def _connect(self) -> Any:
        import psycopg

        address = f"host={HOST} port={self.port} user={USER} dbname=postgres"
        for _ in range(100):
            with contextlib.suppress(psycopg.OperationalError):  # the port opens before the server is ready
                return psycopg.connect(address, autocommit=True)
            time.sleep(0.05)
        return psycopg.connect(address, autocommit=True)
