"""The broker's resident size with a million messages that a group has received and not acked.

They are received a hundred at a time.
"""

import quiver
from benchmarks.payload import bodies
from benchmarks.roles import Role, Watch, run_roles
from benchmarks.run import Run
from benchmarks.servers.broker import Broker
from benchmarks.servers.server import resident_bytes

TOPIC, GROUP = "unsettled", "slow"
FULL_MESSAGES = 1_000_000
SIZE, AT_ONCE = 100, 100


def measure_queue_unsettled(run: Run) -> None:
    count = run.scale.count(FULL_MESSAGES)
    broker = Broker(run.scratch / "queue-unsettled").start()
    try:
        with quiver.connect(broker.address) as client:
            client.topics.create(TOPIC, partitions=1, max_unacked=1_000_000, visibility="1h")
            with client.producer(TOPIC) as producer:
                producer.send_many(bodies(SIZE, count))
        before = resident_bytes(broker.pid)
        with run.measuring(
            "quiver", "queue-unsettled", size=SIZE, detail=f"{count} leased", server_pids=[broker.pid]
        ) as metrics:
            run_roles({"receive": Role(_receive, (broker.address, count))}, timeout=300)
            metrics["growth_mb"] = (resident_bytes(broker.pid) - before) / 1e6
        _check(broker, count)
        broker.kill()
        with run.measuring("quiver", "queue-unsettled", size=SIZE, detail=f"start-up with {count} leased") as metrics:
            broker.start()
            metrics["ready_s"] = broker.start_seconds
        _check(broker, count)
    finally:
        broker.discard()


def _receive(address: str, count: int, watch: Watch) -> None:
    """Nothing is closed, so that nothing is given back: the process ends with its leases."""
    work = quiver.connect(address).work(TOPIC, group=GROUP, max_messages=AT_ONCE, prefetch=AT_ONCE)
    watch.start()
    received = 0
    while received < count:
        received += len(work.next_batch() or ())
    watch.stop()


def _check(broker: Broker, count: int) -> None:
    with quiver.connect(broker.address) as client:
        depth = client.queues.depth(TOPIC, GROUP)
    if depth.leased != count:
        raise RuntimeError(f"{count} messages should be leased: {depth}")
