"""Several brokers on one database: workers move between them in full use, and nothing is lost or doubled.

`make chaos` (QUIVER_LONG=1) runs 30 rounds of faults; QUIVER_CHAOS_ROUNDS and QUIVER_CHAOS_SEED choose otherwise.
"""

import contextlib
import os
import random
import re
import signal
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import quiver
from blackbox.callers.load import Load, check_stored
from blackbox.postgres.brokers_on_one_database import SECONDS, Brokers, await_owners
from blackbox.processes.broker_process import BrokerExited, BrokerProcess, wait_until
from blackbox.processes.cli_process import run_cli
from postgres_cluster import PostgresCluster, programs, running_cluster
from quiver.model.errors import LeaseLost, MessageTimeout, QuiverError

LONG = bool(os.environ.get("QUIVER_LONG"))
ROUNDS = int(os.environ.get("QUIVER_CHAOS_ROUNDS", "30" if LONG else "6"))
SEED = int(os.environ.get("QUIVER_CHAOS_SEED", "0")) or random.SystemRandom().randrange(1, 2**31)
PARTITIONS = 8
LAST = b"the last one"


@pytest.fixture
def brokers(tmp_path: Path, database: str) -> Iterator[Brokers]:
    found = Brokers(tmp_path, database, 3)
    yield found
    found.close()


class Client(threading.Thread):
    """Does something again and again, through all addresses, until it is told to finish."""

    def __init__(self, addresses: str, topic: str) -> None:
        super().__init__(name=type(self).__name__, daemon=True)
        self.addresses, self.topic = addresses, topic
        self.stopping = threading.Event()
        self.error: BaseException | None = None

    def run(self) -> None:
        try:
            with quiver.connect(self.addresses) as q:
                self.use(q)
        except BaseException as error:
            self.error = error

    def use(self, q: Any) -> None:
        raise NotImplementedError

    def finish(self) -> None:
        self.stopping.set()
        self.join(SECONDS)
        if self.error is not None:
            raise self.error
        assert not self.is_alive(), f"{self.name} hangs, seed {SEED}"


class Reader(Client):
    """Ends when it has seen everything."""

    def __init__(self, addresses: str, topic: str) -> None:
        super().__init__(addresses, topic)
        self.seen: set[int] = set()
        self.wanted = 2**62

    def note(self, value: bytes) -> None:
        if value != LAST:
            self.seen.add(int(value))

    def see_all(self, count: int) -> None:
        """However long that takes, as long as it goes on: publishers may be far ahead."""
        while len(self.seen) < count and self.is_alive():
            self._see_more(len(self.seen), count)
        self.finish()
        assert self.seen == set(range(count))

    def _see_more(self, seen: int, count: int) -> None:
        wait_until(
            lambda: len(self.seen) > seen or not self.is_alive(),
            SECONDS,
            f"{self.name} sees {count}, after {seen}, seed {SEED}",
        )


class Worker(Reader):
    def use(self, q: Any) -> None:
        with q.work(self.topic, group="workers", timeout="20s", visibility="5s") as work:
            while len(self.seen) < self.wanted and not self.stopping.is_set():
                with contextlib.suppress(MessageTimeout, LeaseLost), work.next_job(timeout="500ms") as job:
                    self.note(job.value)


class StreamReader(Reader):
    def use(self, q: Any) -> None:
        with q.stream(self.topic, group="readers", timeout="20s") as stream:
            while len(self.seen) < self.wanted and not self.stopping.is_set():
                with contextlib.suppress(MessageTimeout):
                    for message in stream:
                        self.note(message.value)
                        if len(self.seen) >= self.wanted:
                            break


class Transfers(Client):
    """Each transaction puts a number into two topics; one whose outcome is not known is not repeated."""

    def __init__(self, addresses: str) -> None:
        super().__init__(addresses, "left")
        self.committed: set[int] = set()

    def use(self, q: Any) -> None:
        number = 0
        while not self.stopping.is_set():
            number += 1
            try:
                with q.transaction("transfers") as tx:
                    tx.publish("left", b"%d" % number)
                    tx.publish("right", b"%d" % number)
            except QuiverError as error:
                if not error.retryable and error.code != "producer_fenced":
                    raise
            else:
                self.committed.add(number)

    def check(self, q: Any) -> None:
        left, right = ([int(each.value) for each in q.read(topic, end="latest")] for topic in ("left", "right"))
        assert sorted(left) == sorted(right), "all or nothing"
        assert len(left) == len(set(left)), "a transaction counts once"
        assert self.committed <= set(left), "what was committed is there"


class FullUse:
    """Publishers, consumers of both kinds, and transactions."""

    def __init__(self, brokers: Brokers, first: BrokerProcess, durability: str = "fsync") -> None:
        self._addresses = brokers.addresses
        with quiver.connect(first.address) as q:
            q.topics.create("orders", partitions=PARTITIONS, durability=durability)
            for topic in ("left", "right"):
                q.topics.create(topic, partitions=2, durability=durability)
        self._load = Load(brokers.addresses, "orders", PARTITIONS, window=500, linger="5ms", batch_bytes=4096)
        self._readers: list[Reader] = [
            Worker(brokers.addresses, "orders"),
            StreamReader(brokers.addresses, "orders"),
        ]
        self._transfers = Transfers(brokers.addresses)
        for thread in (self._load, *self._readers, self._transfers):
            thread.start()
        self.goes_on()

    def goes_on(self) -> None:
        """Messages and transactions are acknowledged after what has just happened."""
        acks, commits = len(self._load.acked) + 700, len(self._transfers.committed) + 2

        def has_moved() -> bool:
            for thread in (self._load, self._transfers, *self._readers):
                if thread.error is not None:
                    raise thread.error
            return len(self._load.acked) >= acks and len(self._transfers.committed) >= commits

        wait_until(has_moved, SECONDS, f"everything goes on, seed {SEED}")

    def check(self) -> None:
        self._load.finish()
        self._transfers.finish()
        with quiver.connect(self._addresses) as q:
            assert check_stored(q, "orders", self._load.acked) == self._load.sent, f"seed {SEED}"
            self._transfers.check(q)
            for reader in self._readers:
                reader.wanted = self._load.sent
            q.publish("orders", LAST)  # whoever has seen everything already waits for one more
        for reader in self._readers:
            reader.see_all(self._load.sent)


def test_brokers_join_leave_and_are_killed(brokers: Brokers) -> None:
    first, second, third = brokers.of(3)
    first.start()
    use = FullUse(brokers, first)
    second.start()
    await_owners(first, "n0", "n1")
    use.goes_on()
    third.start()
    await_owners(second, "n0", "n1", "n2")
    assert first.terminate() == 0, first.log_text[-4000:]
    await_owners(second, "n1", "n2")
    use.goes_on()
    second.kill()
    await_owners(third, "n2")
    use.goes_on()
    use.check()


def test_a_broker_that_is_paused_and_one_whose_logs_are_taken_over(
    brokers: Brokers, postgres: PostgresCluster, database: str
) -> None:
    schema = database.partition("schema=")[2]
    first, second = brokers.of(2)
    first.start()
    second.start()
    await_owners(first, "n0", "n1")
    use = FullUse(brokers, first)
    os.killpg(first.pid, signal.SIGSTOP)
    try:
        await_owners(second, "n1")
    finally:
        os.killpg(first.pid, signal.SIGCONT)
    await_owners(second, "n0", "n1")
    assert "has lost its lease" in first.log_text
    use.goes_on()
    postgres.sql(f"""
        update {schema}.start_epoch set value = value + 1;
        update {schema}.log set owner = (select value from {schema}.start_epoch), owner_epoch = owner_epoch + 1""")
    for broker in (first, second):  # somebody else believes to own everything
        wait_until(lambda broker=broker: "has opened its logs" in broker.log_text, SECONDS, "it is refused")  # type: ignore[misc]
    use.goes_on()
    await_owners(first, "n0", "n1")
    postgres.stop()
    wait_until(lambda: second.request("GET", "/readyz")[0] == 503, SECONDS, "the database is missed")
    postgres.start()
    await_owners(first, "n0", "n1")
    use.goes_on()
    use.check()


def test_workers_are_drained_and_nodes_are_told_apart(brokers: Brokers, tmp_path: Path, database: str) -> None:
    first, second = brokers.of(2)
    first.start()
    second.start()
    await_owners(second, "n0", "n1")
    status, nodes = first.request("GET", "/cluster/nodes")
    assert (status, nodes["node"]) == (200, "n0")
    assert [(each["node"], each["state"], len(each["workers"])) for each in nodes["nodes"]] == [
        ("n0", "alive", 2),
        ("n1", "alive", 2),
    ]
    assert [each["leaders"] for each in nodes["nodes"]] == [each["workers"] for each in nodes["nodes"]]
    units = first.request("GET", "/cluster")[1]["units"]
    assert [unit["unit"] for unit in units] == [0, 1, 2, 3]
    assert all(unit["replicas"] == unit["isr"] == [unit["leader"]] for unit in units)
    health = second.request("GET", "/cluster/health")[1]
    assert (health["status"], health["nodes"], health["nodes_alive"], health["units"]) == ("ok", 2, 2, 4)
    assert health["controller"] in ("n0", "n1")
    assert run_cli(second.address, "cluster", "drain", "n0").returncode == 0
    await_owners(second, "n1")
    assert {unit["leader"] for unit in first.request("GET", "/cluster")[1]["units"]} == {"n1"}
    assert [each["state"] for each in second.request("GET", "/cluster")[1]["nodes"]] == ["draining", "alive"]
    assert second.request("POST", "/cluster/rebalance") == (
        200,
        {"dry_run": False, "moving": {}, "leaving": {}},
    )
    for method, path, body, command in (
        ("POST", "/admin/reassignment", {"units": [{"unit": 0, "new_replicas": ["n0"]}]}, ("reassign", "0", "n0")),
        ("DELETE", "/admin/reassignment/1", None, ("reassignments", "1", "--cancel")),
    ):
        code, refused = first.request(method, path, body)
        assert (code, refused["code"]) == (501, "not_supported")
        told = run_cli(second.address, "cluster", *command).stderr.decode()
        for text in (refused["error"], " ".join(told.split())):
            assert "move workers between brokers with quiver cluster drain or rebalance" in text
    shown = run_cli(second.address, "cluster", "nodes").stdout.decode()
    assert re.search(r"n0 +draining.*\nn1 +alive +0,1,2,3", shown), shown
    assert run_cli(second.address, "cluster", "drain", "n0", "--end").returncode == 0
    await_owners(first, "n0", "n1")
    for path, code in (("/cluster/nodes/n1", "node_in_use"), ("/cluster/nodes/n7", "node_not_found")):
        assert first.request("DELETE", path)[1]["code"] == code
    for arguments, problem in (
        (("--node-id", "n0"), "is held by another broker with the node id n0"),
        (("--cluster-workers", "7"), "has set it to 4"),
    ):
        with pytest.raises(BrokerExited) as refused:
            BrokerProcess(tmp_path / "other", "--storage", database, *arguments).start()
        assert problem in refused.value.log
    with quiver.connect(brokers.addresses) as q:
        q.topics.create("t", partitions=8)
        for number in range(8):
            q.publish("t", b"%d" % number, partition=number)
    for broker in (first, second):
        with quiver.connect(broker.address) as q:
            assert sorted(int(each.value) for each in q.read("t", end="latest")) == list(range(8))
    second.kill()
    await_owners(first, "n0")
    assert first.request("GET", "/readyz")[0] == 200


def test_what_a_killed_broker_has_buffered_is_stored_while_another_one_runs(
    brokers: Brokers, postgres: PostgresCluster
) -> None:
    first, second = brokers.of(2)
    first.args += ("--buffer-dir", str(first.data_dir / "buffer"))
    first.start()
    publish = {"messages": [{"value": "kept"}]}
    with quiver.connect(first.address) as q:
        q.topics.create("orders", partitions=1)
    postgres.stop()
    try:
        buffered = wait_until(
            lambda: (answer := first.request("POST", "/topics/orders/messages", publish))[0] == 200 and answer[1],
            SECONDS,
            "it is buffered",
        )
        assert buffered["results"][0]["buffered"]
        first.kill()
    finally:
        postgres.start()
    second.start()
    await_owners(second, "n1")
    with quiver.connect(second.address) as q:
        assert list(q.read("orders", end="latest")) == []
        first.start()
        await_owners(second, "n0", "n1")
        assert [each.value for each in q.read("orders", end="latest")] == [b"kept"]
    checks = first.request("GET", "/readyz?verbose=true")[1]
    assert "to itself" in checks["warnings"]["buffer"]


@pytest.mark.long
@pytest.mark.timeout(300 + 40 * ROUNDS)
@pytest.mark.parametrize("durability", ["fsync", "interval"])
def test_nothing_is_lost_over_many_faults(tmp_path: Path, durability: str) -> None:
    if programs() is None:
        pytest.skip("PostgreSQL is not installed (scripts/system-packages installs it)")
    print(f"seed {SEED}, {ROUNDS} rounds")
    chance = random.Random(SEED)
    with running_cluster(durable=True) as cluster:
        brokers = Brokers(tmp_path, f"{cluster.address}?schema=many_faults", 3)
        try:
            for broker in brokers.brokers:
                broker.start()
            await_owners(brokers[0], "n0", "n1", "n2")
            use = FullUse(brokers, brokers[0], durability)
            for _ in range(ROUNDS):
                use.goes_on()
                _disturb(chance, brokers, cluster)
                await_owners(brokers[0], "n0", "n1", "n2")
            use.check()
        finally:
            brokers.close()


def _disturb(chance: random.Random, brokers: Brokers, cluster: PostgresCluster) -> None:
    broker, fault = chance.choice(brokers.brokers), chance.choice(["kill", "stop", "pause", "database", "crash"])
    print(f"{fault} {broker.args[-1]}", flush=True)
    if fault in ("kill", "stop"):
        broker.kill() if fault == "kill" else broker.terminate()
        broker.start()
    elif fault == "pause":
        os.killpg(broker.pid, signal.SIGSTOP)
        threading.Event().wait(chance.uniform(0.5, 5))
        os.killpg(broker.pid, signal.SIGCONT)
    else:
        cluster.stop() if fault == "database" else cluster.kill()
        cluster.start()
