"""A network between broker and database that drops everything without a word: nobody hangs, nothing is lost."""

from collections.abc import Callable

import pytest

import quiver
from blackbox.callers.load import Load, check_stored
from blackbox.processes.broker_process import BrokerProcess, wait_until
from blackbox.processes.tcp_relay import TcpRelay
from postgres_cluster import PostgresCluster

StartBroker = Callable[..., BrokerProcess]
SECONDS = 60.0
BODY = {"messages": [{"value": "x"}]}


def _await_acks(load: Load, more: int) -> None:
    count = len(load.acked) + more
    wait_until(lambda: len(load.acked) >= count or not load.is_alive(), SECONDS, f"{more} acks")
    if load.error is not None:
        raise load.error


@pytest.mark.parametrize("durability", ["fsync", "interval"])
def test_a_network_that_is_cut_and_heals(
    start_broker: StartBroker, postgres: PostgresCluster, database: str, durability: str
) -> None:
    schema = database.partition("schema=")[2]
    with TcpRelay(postgres.port) as relay:
        broker = start_broker("--storage", f"{postgres.address_at(relay.port)}?schema={schema}")
        with quiver.connect(broker.address) as q:
            q.topics.create("orders", partitions=3, durability=durability)
            q.topics.create("other", partitions=1, durability=durability)
            q.publish("other", b"before")
        load = Load(broker.address, "orders", 3)
        load.start()
        _await_acks(load, 500)
        relay.cut()
        for method, path, body in (
            ("POST", "/topics/other/messages", BODY),  # sent, and nobody knows what became of it
            ("POST", "/topics/other/messages", BODY),
            ("POST", "/api/v1/push", {"items": [{"queue": "other", "payload": 1}]}),
            ("GET", "/api/v1/pop/queue/other?batch=10", None),
        ):
            status, refused = broker.request(method, path, body, timeout=30)
            assert (status, refused["code"], refused["retryable"]) == (503, "storage_unavailable", True)
        status, ready = broker.request("GET", "/readyz")
        assert (status, "does not respond" in ready["checks"]["storage"]["message"]) == (503, True), ready
        relay.heal()
        wait_until(lambda: broker.request("GET", "/readyz")[0] == 200, SECONDS, "the broker is ready again")
        assert broker.request("POST", "/topics/other/messages", BODY)[0] == 200
        _await_acks(load, 500)
        load.finish()
        with quiver.connect(broker.address) as q:
            assert check_stored(q, "orders", load.acked) == load.sent
            values = [message.value for message in q.read("other", end="latest")]
        assert values in ([b"before", b"x", b"x"], [b"before", b"x"]), "what was open is there once, or not"
        broker.restart()
        with quiver.connect(broker.address) as q:
            assert check_stored(q, "orders", load.acked) == load.sent
