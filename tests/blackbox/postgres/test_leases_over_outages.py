"""Leases of coordination over outages of the database: they can be renewed after it, and end when nobody does."""

import asyncio
import os
import signal
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import pytest

import quiver
from blackbox.callers.load import Load, check_stored
from blackbox.postgres.brokers_on_one_database import SECONDS, Brokers, await_owners
from blackbox.processes.broker_process import BrokerProcess, wait_until
from postgres_cluster import PostgresCluster, open_directory, programs, running_cluster
from quiver.coordination.port import Put
from quiver.coordination.postgres import PostgresCoordination
from quiver.storage.postgres.database.address import parse_address
from quiver.storage.postgres.storage import PostgresStorage

TTL_MS = 500
LONGER_THAN_LEASES = 3.0


@pytest.fixture
def cluster() -> Iterator[PostgresCluster]:
    """A PostgreSQL that syncs, for each test to kill."""
    if programs() is None:
        pytest.skip("PostgreSQL is not installed (scripts/system-packages installs it)")
    with running_cluster(durable=True) as running:
        yield running


class Member:
    """Whoever has a lease and a key under it."""

    def __init__(self, address: str) -> None:
        self._storage = PostgresStorage(parse_address(address))
        self.coordination = PostgresCoordination(self._storage.resources.database)
        self.lease_id = 0

    async def open(self) -> "Member":
        await self._storage.open()
        await self.coordination.open()
        self.lease_id = await self.coordination.grant_lease(TTL_MS)
        assert (await self.coordination.commit([], [Put("n/1", b"", self.lease_id)])).succeeded
        return self

    @property
    def outage(self) -> str | None:
        return self._storage.outage

    async def close(self) -> None:
        await self.coordination.close()
        await self._storage.close()


async def until(check: Callable[[], object]) -> None:
    async with asyncio.timeout(SECONDS):
        while not check():
            await asyncio.sleep(0)


async def lease_is_over(cluster: PostgresCluster, schema: str) -> None:
    """By the database's clock."""
    look = f"select ends_at < clock_timestamp() from {schema}.coordination_lease"
    async with asyncio.timeout(SECONDS):
        while await asyncio.to_thread(cluster.sql, look) != "t":
            await asyncio.sleep(0)


async def check_that_it_lasts_and_ends(member: Member, cluster: PostgresCluster) -> None:
    """The server has just come back: the lease can be renewed although its time is up, and ends without that."""
    await until(lambda: not member.outage)
    await lease_is_over(cluster, "leases")
    assert await member.coordination.get("n/1") is not None
    assert await member.coordination.keep_alive(member.lease_id)
    assert (await member.coordination.commit([], [Put("n/1", b"again", member.lease_id)])).succeeded
    async with asyncio.timeout(SECONDS):
        async for batch in member.coordination.watch("n/"):
            if not batch.changes or batch.changes[-1].value is None:
                break
    assert not await member.coordination.keep_alive(member.lease_id)
    refused = await member.coordination.commit([], [Put("n/1", b"", member.lease_id)])
    assert refused.missing_lease_id == member.lease_id


@pytest.fixture
async def member(cluster: PostgresCluster) -> AsyncIterator[Member]:
    member = await Member(f"{cluster.address}?schema=leases").open()
    yield member
    await member.close()


def crash(cluster: PostgresCluster) -> None:
    cluster.kill()
    threading.Event().wait(2 * TTL_MS / 1000)
    cluster.start()


def restart(cluster: PostgresCluster) -> None:
    cluster.stop()
    threading.Event().wait(2 * TTL_MS / 1000)
    cluster.start()


def crash_of_one_process(cluster: PostgresCluster) -> None:
    """The server itself goes on, ends all connections and recovers: it was started long ago."""
    pid = cluster.sql("select pid from pg_stat_activity where application_name = 'quiver' limit 1")
    os.kill(int(pid), signal.SIGKILL)


@pytest.mark.parametrize("outage", [crash, restart, crash_of_one_process])
async def test_a_lease_can_be_renewed_after_an_outage_and_ends_without_that(
    cluster: PostgresCluster, member: Member, outage: Callable[[PostgresCluster], None]
) -> None:
    running = asyncio.ensure_future(asyncio.to_thread(outage, cluster))
    await until(lambda: member.outage)
    await running
    await check_that_it_lasts_and_ends(member, cluster)


async def test_a_lease_lasts_over_a_failover_to_a_standby_that_runs_for_long(cluster: PostgresCluster) -> None:
    with open_directory() as directory:
        standby = cluster.create_standby(directory / "standby").start()
        try:
            hosts = f"127.0.0.1:{cluster.port},127.0.0.1:{standby.port}"
            options = "target_session_attrs=read-write&schema=leases"
            member = await Member(f"postgresql://quiver@{hosts}/postgres?{options}").open()
            at = cluster.sql("select pg_current_wal_lsn()")
            wait_until(
                lambda: standby.sql(f"select pg_last_wal_replay_lsn() >= '{at}'") == "t", SECONDS, "it has all"
            )
            cluster.kill()
            await until(lambda: member.outage)
            standby.sql("select pg_promote()")
            await check_that_it_lasts_and_ends(member, standby)
            await member.close()
        finally:
            standby.kill()


def starts(asked: BrokerProcess) -> dict[int, tuple[str, int]]:
    """The node and the epoch of each worker, as its broker knows it."""
    return {each["worker"]: (each["node"], each["epoch"]) for each in asked.request("GET", "/cluster")[1]["workers"]}


def test_what_a_broker_has_kept_is_stored_though_it_comes_back_later_than_its_lease(
    cluster: PostgresCluster, tmp_path: Path
) -> None:
    """Both brokers keep commits that were not waited for, and the crash lasts longer than their leases."""
    brokers = Brokers(tmp_path, f"{cluster.address}?schema=late", 2)
    first, second = brokers.of(2)
    try:
        first.start()
        second.start()
        await_owners(first, "n0", "n1")
        with quiver.connect(brokers.addresses) as q:
            q.topics.create("orders", partitions=8, durability="interval")
        load = Load(brokers.addresses, "orders", 8)
        load.start()
        wait_until(lambda: len(load.acked) > 2000, SECONDS, "acks before the crash")
        before = starts(second)
        cluster.kill()
        os.killpg(first.pid, signal.SIGSTOP)
        try:
            threading.Event().wait(LONGER_THAN_LEASES)
            cluster.start()
            wait_until(lambda: second.request("GET", "/readyz")[0] == 200, SECONDS, "the second one is back")
            threading.Event().wait(LONGER_THAN_LEASES)  # and than it waits for one that has no lease
        finally:
            os.killpg(first.pid, signal.SIGCONT)
        acked = len(load.acked)
        wait_until(lambda: len(load.acked) > acked + 3000, SECONDS, "acks after the crash")
        assert starts(second) == before
        load.finish()
        with quiver.connect(brokers.addresses) as q:
            assert check_stored(q, "orders", load.acked) == load.sent
        cluster.kill()
        second.kill()
        cluster.start()
        await_owners(first, "n0")
    finally:
        brokers.close()
