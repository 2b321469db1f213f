"""A broker on PostgreSQL: everything a broker does, its tables, and who may use them."""

import contextlib
import json
import threading
from collections.abc import Callable

import pytest

import quiver
from blackbox.processes.broker_process import BrokerExited, BrokerProcess, wait_until
from blackbox.processes.cli_process import run_cli
from postgres_cluster import PostgresCluster

StartBroker = Callable[..., BrokerProcess]
SECONDS = 30.0


def test_publish_queues_transactions_delays_and_a_restart(start_broker: StartBroker, database: str) -> None:
    broker = start_broker(environment={"QUIVER_STORAGE": database})
    with quiver.connect(broker.address) as q:
        for durability in ("fsync", "interval"):
            q.topics.create(durability, partitions=3, durability=durability)
            with q.producer(durability) as producer:
                producer.send_many([b"%d" % number for number in range(5000)])
        seen = []
        with q.work("fsync", group="workers") as work:
            for job in work:
                with job:
                    seen.append(int(job.value))
                if len(seen) == 2000:
                    break
        q.topics.create("accounts")
        with q.transaction("mover") as tx:
            tx.publish("accounts", b"kept")
        with contextlib.suppress(ZeroDivisionError), q.transaction("mover") as tx:
            tx.publish("accounts", b"dropped")
            raise ZeroDivisionError
        q.publish("accounts", b"later", delay="300ms")
        wait_until(lambda: len(list(q.read("accounts", end="latest"))) == 2, SECONDS, "the delayed message")
    broker.restart()
    with quiver.connect(broker.address) as q:
        for durability in ("fsync", "interval"):
            found = sorted(int(message.value) for message in q.read(durability, end="latest"))
            assert found == list(range(5000))
        assert {message.value for message in q.read("accounts", end="latest")} == {b"kept", b"later"}
        with q.work("fsync", group="workers") as work:
            for job in work:
                with job:
                    seen.append(int(job.value))
                if len(seen) == 5000:
                    break
        assert sorted(seen) == list(range(5000)), "each was worked on once, before the restart or after it"


def test_retention_and_deleting_remove_rows(
    start_broker: StartBroker, database: str, postgres: PostgresCluster
) -> None:
    schema = database.partition("schema=")[2]
    broker = start_broker("--storage", database)
    with quiver.connect(broker.address) as q:
        q.topics.create("old", partitions=1, segment_bytes="64KiB", retention_bytes="128KiB")
        with q.producer("old", batch_bytes=16_384) as producer:
            for number in range(400):
                producer.send(b"%d" % number + bytes(4000))
        count = f"select sum(octet_length(data)) from {schema}.frame"
        wait_until(lambda: 0 < int(postgres.sql(count)) < 500_000, 90, "retention removes rows")
        q.topics.delete("old")
        names = f"select count(*) from {schema}.log where name like 'topics/%'"
        wait_until(lambda: postgres.sql(names) == "0", SECONDS, "the topic's rows are gone")


def test_tables_are_created_updated_and_never_taken_from_a_newer_version(
    start_broker: StartBroker, database: str, postgres: PostgresCluster
) -> None:
    schema = database.partition("schema=")[2]

    def storage(command: str) -> tuple[int, list[dict[str, object]]]:
        done = run_cli("", "storage", command, "--storage", database, "-o", "json")
        assert b"Traceback" not in done.stderr
        return done.returncode, json.loads(done.stdout or b"[]")

    status, [row] = storage("status")
    assert (status, row["version"]) == (3, 0)
    postgres.sql(f"create schema {schema}; create table {schema}.log (stops_the_migration int)")
    assert run_cli("", "storage", "migrate", "--storage", database).returncode == 1
    assert postgres.sql(f"select count(*) from pg_tables where schemaname = '{schema}'") == "1", "nothing half done"
    postgres.sql(f"drop table {schema}.log")
    _interrupt_migration(postgres, schema, lambda: run_cli("", "storage", "migrate", "--storage", database))
    assert postgres.sql(f"select count(*) from pg_tables where schemaname = '{schema}'") == "0", "nothing half done"
    names = ["tables", "coordination", "buffer", "owners", "leases"]
    assert storage("migrate") == (0, [{"version": number, "name": name} for number, name in enumerate(names, 1)])
    assert storage("migrate") == (0, [])
    assert storage("status")[0] == 0
    postgres.sql(f"insert into {schema}.migration (version, name) values (99, 'later')")
    with pytest.raises(BrokerExited) as refused:
        start_broker("--storage", database)
    assert "have version 99, and this Quiver knows versions up to 5" in refused.value.log
    done = run_cli("", "storage", "migrate", "--storage", database)
    assert done.returncode == 1
    assert b"upgrade the older side" in done.stderr


def _interrupt_migration(postgres: PostgresCluster, schema: str, migrate: Callable[[], object]) -> None:
    """Cuts its connection off while it creates a table in its middle."""
    postgres.sql(f"""
        create function {schema}_wait() returns event_trigger language plpgsql as $$
        begin
            if to_regclass('{schema}.snapshot') is not null then perform pg_sleep(60); end if;
        end $$;
        create event trigger {schema}_wait on ddl_command_end when tag in ('CREATE TABLE')
        execute function {schema}_wait()""")
    running = threading.Thread(target=migrate)
    running.start()
    cut = "select count(pg_terminate_backend(pid)) from pg_stat_activity where wait_event = 'PgSleep'"
    wait_until(lambda: postgres.sql(cut) == "1", SECONDS, "the migration is cut off")
    running.join(SECONDS)
    postgres.sql(f"drop event trigger {schema}_wait; drop function {schema}_wait")


def test_a_database_that_cannot_be_used_is_named_without_its_password(start_broker: StartBroker) -> None:
    for address, problem in (
        ("postgresql://127.0.0.1:1", "names no database"),
        ("mysql://localhost/x", "must be an address such as postgresql://"),
        ("postgresql://u:secret@127.0.0.1/db?schema=A-b", "is not a schema name"),
    ):
        with pytest.raises(BrokerExited) as refused:
            start_broker("--storage", address)
        assert problem in refused.value.log
        assert "secret" not in refused.value.log
