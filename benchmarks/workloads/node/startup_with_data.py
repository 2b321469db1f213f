"""How long the broker takes to be ready with gigabytes in many partitions: after a clean stop, and after kill -9."""

import quiver
from benchmarks.roles import Role, run_roles
from benchmarks.run import Run
from benchmarks.servers.broker import Broker
from benchmarks.servers.server import resident_bytes
from benchmarks.workloads.messages.filling import fill

TOPIC = "startup"
MESSAGE_BYTES = 1024


def measure_startup(run: Run) -> None:
    count = int(run.scale.gigabytes_through * 1e9 / MESSAGE_BYTES)
    broker = Broker(run.scratch / "startup").start()
    try:
        with quiver.connect(broker.address) as client:
            client.topics.create(TOPIC, partitions=run.scale.many_partitions, durability="interval")
        _fill(broker, count)
        size = f"{run.scale.gigabytes_through:g} GB, {run.scale.many_partitions} partitions"
        for _ in run.repetitions():
            broker.stop()
            _measure(run, broker, f"{size}, clean stop")
        _fill(broker, count // 20)  # so that there is an end of the log to check
        broker.kill()
        _measure(run, broker, f"{size}, kill -9")
    finally:
        broker.discard()


def _fill(broker: Broker, count: int) -> None:
    run_roles({"produce": Role(fill, (broker.address, TOPIC, count, MESSAGE_BYTES))}, timeout=300)


def _measure(run: Run, broker: Broker, detail: str) -> None:
    with run.measuring("quiver", "startup", detail=detail) as metrics:
        broker.start()
        metrics["ready_s"] = broker.start_seconds
        metrics["resident_mb"] = resident_bytes(broker.pid) / 1e6
