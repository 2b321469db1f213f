"""A standby of the database: old messages are read from it, and it takes over."""

from collections.abc import Callable, Iterator

import pytest

import quiver
from blackbox.callers.load import Load, check_stored
from blackbox.processes.broker_process import BrokerProcess, wait_until
from postgres_cluster import PostgresCluster, open_directory, programs, running_cluster

StartBroker = Callable[..., BrokerProcess]
SECONDS = 60.0
FRAME_SCANS = "select coalesce(sum(idx_scan + seq_scan), 0) from pg_stat_user_tables where relname like 'frame_%'"


@pytest.fixture
def servers() -> Iterator[tuple[PostgresCluster, PostgresCluster]]:
    """A primary that waits for its standby, and the standby."""
    if programs() is None:
        pytest.skip("PostgreSQL is not installed (scripts/system-packages installs it)")
    with running_cluster(durable=True) as primary, open_directory() as directory:
        standby = primary.create_standby(directory / "standby")
        try:
            standby.start()
            primary.sql("alter system set synchronous_standby_names = '*'")
            primary.sql("select pg_reload_conf()")
            wait_until(
                lambda: primary.sql("select sync_state from pg_stat_replication") == "sync",
                SECONDS,
                "the standby follows",
            )
            yield primary, standby
        finally:
            standby.kill()


def test_old_messages_come_from_the_standby_which_can_take_over(
    start_broker: StartBroker, servers: tuple[PostgresCluster, PostgresCluster]
) -> None:
    primary, standby = servers
    hosts = f"127.0.0.1:{primary.port},127.0.0.1:{standby.port}"
    broker = start_broker(
        "--storage", f"postgresql://quiver@{hosts}/postgres?target_session_attrs=read-write",
        "--read-from", f"{standby.address}?schema=ignored",
    )  # fmt: skip
    with quiver.connect(broker.address) as q:
        q.topics.create("old", partitions=1, segment_bytes=64 * 1024)
        with q.producer("old") as out:
            for first in range(0, 5000, 500):  # each of them a segment
                out.send_many([b"%06d" % number + bytes(200) for number in range(first, first + 500)])
                out.flush()
    broker.kill()  # nothing is in its memory any more
    broker.start()
    before = int(standby.sql(FRAME_SCANS))
    with quiver.connect(broker.address) as q:
        values = [message.value for message in q.read("old", start="earliest", end="latest")]
        assert [int(value[:6]) for value in values] == list(range(5000))
        wait_until(lambda: int(standby.sql(FRAME_SCANS)) > before, SECONDS, "the standby counts a read")
        q.topics.create("orders", partitions=3)
    load = Load(broker.address, "orders", 3)
    load.start()
    wait_until(lambda: len(load.acked) > 500, SECONDS, "acks before the failover")
    primary.kill()
    standby.sql("select pg_promote()")
    standby.sql("alter system set synchronous_standby_names = ''")
    standby.sql("select pg_reload_conf()")
    acked = len(load.acked)
    wait_until(lambda: len(load.acked) > acked + 500, SECONDS, "acks after the failover")
    load.finish()
    with quiver.connect(broker.address) as q:
        assert check_stored(q, "orders", load.acked) == load.sent
        assert len(list(q.read("old", start="earliest", end="latest"))) == 5000
