"""Brokers and databases that are killed, cut off and full: nothing acked is lost, nothing is doubled.

`make chaos` (QUIVER_LONG=1) runs 50 rounds; QUIVER_CHAOS_ROUNDS and QUIVER_CHAOS_SEED choose otherwise.
"""

import asyncio
import os
import random
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import asyncpg
import pytest

import quiver
from blackbox.callers.load import Load, check_stored
from blackbox.processes.broker_process import BrokerProcess, free_port, wait_until
from blackbox.processes.small_disks import small_tmpfs
from blackbox.processes.tcp_relay import TcpRelay
from postgres_cluster import PostgresCluster, open_directory, programs, running_cluster

StartBroker = Callable[..., BrokerProcess]
LONG = bool(os.environ.get("QUIVER_LONG"))
ROUNDS = int(os.environ.get("QUIVER_CHAOS_ROUNDS", "50" if LONG else "6"))
SEED = int(os.environ.get("QUIVER_CHAOS_SEED", "0")) or random.SystemRandom().randrange(1, 2**31)
SECONDS = 60.0
TERMINATE = (
    "select pg_terminate_backend(pid) from pg_stat_activity "
    "where application_name = 'quiver' and pid <> pg_backend_pid()"
)


TERMINATE_ONE = f"{TERMINATE} order by random() limit 1"


@pytest.fixture(scope="module")
def cluster() -> Iterator[PostgresCluster]:
    """A PostgreSQL that syncs, for the tests of this module to kill."""
    if programs() is None:
        pytest.skip("PostgreSQL is not installed (scripts/system-packages installs it)")
    with running_cluster(durable=True) as running:
        yield running


@pytest.fixture
def relay(cluster: PostgresCluster) -> Iterator[TcpRelay]:
    with TcpRelay(cluster.port) as running:
        yield running


def _await_acks(load: Load, count: int) -> None:
    wait_until(lambda: len(load.acked) >= count or not load.is_alive(), SECONDS, f"{count} acks, seed {SEED}")
    if load.error is not None:
        raise load.error


@pytest.mark.long
@pytest.mark.timeout(120 + 30 * ROUNDS)
@pytest.mark.parametrize(("durability", "buffer"), [("fsync", False), ("interval", False), ("fsync", True)])
def test_nothing_acked_is_lost_or_doubled(
    start_broker: StartBroker,
    cluster: PostgresCluster,
    relay: TcpRelay,
    tmp_path: Path,
    durability: str,
    buffer: bool,
) -> None:
    print(f"seed {SEED}, {ROUNDS} rounds")
    chance = random.Random(f"{SEED} {durability} {buffer}")
    address = f"{cluster.address_at(relay.port)}?schema=kills_{durability}_{buffer}".lower()
    arguments = ("--buffer-dir", str(tmp_path / "buffer")) if buffer else ()
    broker = start_broker("--storage", address, "--native-port", str(free_port()), *arguments)
    with quiver.connect(broker.address) as q:
        q.topics.create("orders", partitions=3, durability=durability, segment_bytes=64 * 1024)
    load = Load(broker.address, "orders", 3)
    load.start()
    faults = ["database", "connections", "broker", "one connection", "database restart", "network"]
    if buffer:
        faults.append("broker while the database is away")
    if durability == "fsync":
        faults += ["both", "broker while the network is cut"]
    for number in range(ROUNDS):
        _await_acks(load, len(load.acked) + chance.randint(1, 3000))
        fault = faults[number % len(faults)] if number < len(faults) else chance.choice(faults)
        if fault in ("connections", "one connection"):
            cluster.sql(TERMINATE if fault == "connections" else TERMINATE_ONE)
        if fault in ("broker", "both"):
            broker.kill()
        if fault in ("database", "both"):
            cluster.kill()
        if fault in ("database restart", "broker while the database is away"):
            cluster.stop()
        if buffer and fault in ("database restart", "broker while the database is away"):
            _await_acks(load, len(load.acked) + chance.randint(1, 3000))
        if "network" in fault:  # for less time than it takes to notice, or for more
            relay.cut()
            threading.Event().wait(chance.choice([0.3, 3, 8]))
        if fault in ("broker while the database is away", "broker while the network is cut"):
            broker.kill()
        if "network" in fault:
            relay.heal()
        elif fault not in ("connections", "one connection", "broker"):
            cluster.start()
        if "broker" in fault or fault == "both":
            broker.start()
    _await_acks(load, len(load.acked) + 1000)
    load.finish()
    wait_until(lambda: _is_all_stored(broker), SECONDS, f"nothing is in the local buffer, seed {SEED}")
    with quiver.connect(broker.address) as q:
        assert check_stored(q, "orders", load.acked) == load.sent, f"seed {SEED}"


def _is_all_stored(broker: BrokerProcess) -> bool:
    """What is in the local buffer cannot be read yet."""
    status, ready = broker.request("GET", "/readyz")
    return status == 200 and ready["checks"]["storage"]["message"] == "all partitions take writes"


def test_while_the_database_is_away_requests_are_refused_and_then_all_goes_on(
    start_broker: StartBroker, cluster: PostgresCluster
) -> None:
    broker = start_broker("--storage", f"{cluster.address}?schema=away")
    publish = {"messages": [{"value": "x"}]}
    with quiver.connect(broker.address) as q:
        q.topics.create("orders", partitions=1)
        q.publish("orders", b"first")
    cluster.stop()
    try:
        status, refused = wait_until(
            lambda: (answer := broker.request("POST", "/topics/orders/messages", publish))[0] == 503 and answer,
            SECONDS,
            "a publish is refused",
        )
        assert (refused["code"], refused["retryable"]) == ("storage_unavailable", True)
        status, ready = broker.request("GET", "/readyz")
        assert status == 503
        assert "the database cannot be used" in ready["checks"]["storage"]["message"]
        assert broker.request("GET", "/topics/orders")[0] == 200, "what is in memory can be asked for"
    finally:
        cluster.start()
    wait_until(lambda: broker.request("GET", "/readyz")[0] == 200, SECONDS, "the broker is ready again")
    assert broker.request("POST", "/topics/orders/messages", publish)[0] == 200
    with quiver.connect(broker.address) as q:
        values = [message.value for message in q.read("orders", end="latest")]
    assert values == [b"first", b"x"]


async def _occupy(address: str) -> list[Any]:
    """All connections that the server has, with those of the broker."""
    taken: list[Any] = []
    while True:
        try:
            taken.append(await asyncpg.connect(address))
        except asyncpg.TooManyConnectionsError:
            if await taken[0].fetch(TERMINATE):
                continue
            return taken


def test_too_many_connections_pass(start_broker: StartBroker, cluster: PostgresCluster) -> None:
    broker = start_broker("--storage", f"{cluster.address}?schema=crowded")
    body: dict[str, object] = {"messages": [{"value": "x"}]}
    with quiver.connect(broker.address) as q:
        q.topics.create("orders", partitions=1)
    with asyncio.Runner() as runner:
        taken = runner.run(_occupy(cluster.address))
        wait_until(lambda: _status(broker, body) == 503, SECONDS, "a publish is refused")
        wait_until(
            lambda: "too many clients" in broker.request("GET", "/readyz")[1]["checks"]["storage"]["message"],
            SECONDS,
            "readiness says why",
        )
        for connection in taken:
            connection.terminate()
    wait_until(lambda: broker.request("GET", "/readyz")[0] == 200, SECONDS, "the broker is ready again")
    assert _status(broker, body) == 200


def _status(broker: BrokerProcess, body: dict[str, object]) -> int:
    """0 for a publish whose outcome is open: it was sent before the database said why not."""
    try:
        return broker.request("POST", "/topics/orders/messages", body, timeout=2)[0]
    except TimeoutError:
        return 0


def test_a_full_disk_of_the_database_passes(start_broker: StartBroker, cluster: PostgresCluster) -> None:
    with open_directory() as directory, small_tmpfs(directory / "small", 32 << 20) as disk:
        space, filler = disk / "space", disk / "filler"
        space.mkdir()
        cluster.give(space)
        broker = start_broker("--storage", f"{cluster.address}?schema=small_disk")
        with quiver.connect(broker.address) as q:
            q.topics.create("orders", partitions=1)
            q.publish("orders", b"first")
        try:
            cluster.sql(f"create tablespace small location '{space}'")
            for number in range(8):
                cluster.sql(f"alter table small_disk.frame_{number} set tablespace small")
            free = os.statvfs(disk)
            filler.write_bytes(bytes(free.f_bavail * free.f_bsize))
            body: dict[str, object] = {"messages": [{"value": "x" * 900_000}]}
            wait_until(lambda: _status(broker, body) == 503, SECONDS, "a publish is refused")
            ready = broker.request("GET", "/readyz")[1]["checks"]["storage"]["message"]
            assert "No space left on device" in ready
            filler.unlink()
            wait_until(lambda: broker.request("GET", "/readyz")[0] == 200, SECONDS, "the broker is ready again")
            assert _status(broker, body) == 200
        finally:
            broker.kill()
            cluster.sql("drop schema if exists small_disk cascade")
            cluster.sql("drop tablespace if exists small")
