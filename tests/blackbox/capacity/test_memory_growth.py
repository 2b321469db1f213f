"""The broker's resident size stays put while much more than its memory passes through.

The suite sends 1 GB; `make chaos` (QUIVER_LONG=1) sends 5 GB for each durability.
"""

import os
from typing import Any

import pytest

import quiver
from blackbox.processes.broker_process import BrokerProcess

GIGABYTES = 5 if os.environ.get("QUIVER_LONG") else 0.5
GROWTH_BYTES = 100 * 1024 * 1024
VALUE_BYTES = 1000
BATCH = 10_000


def _pass(q: Any, megabytes: int) -> int:
    """Sends and reads back that much; returns how many messages were read."""
    values = [os.urandom(VALUE_BYTES // 2) * 2 for _ in range(BATCH)]
    read = 0
    for _ in range(megabytes * 1_000_000 // (BATCH * VALUE_BYTES)):
        with q.producer("flow") as producer:
            producer.send_many(values)
    for batch in q.read("flow", end="latest").batches():
        read += batch.num_rows
    return read


@pytest.mark.long
@pytest.mark.timeout(int(120 + 60 * GIGABYTES))
@pytest.mark.parametrize("durability", ["fsync", "interval"])
def test_resident_size_grows_by_less_than_100_mb(broker: BrokerProcess, durability: str) -> None:
    share = int(GIGABYTES * 1000 / 5)
    with quiver.connect(broker.address) as q:
        q.topics.create("flow", partitions=2, durability=durability, retention_bytes=100_000_000)
        assert _pass(q, 50) == 50_000
        before = broker.resident_bytes()
        sizes = []
        for _ in range(5):
            assert _pass(q, share) > 0
            sizes.append(broker.resident_bytes() - before)
    print("growth, MB:", [round(size / 1e6) for size in sizes])
    assert max(sizes) < GROWTH_BYTES
