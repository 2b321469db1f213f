"""How long the broker takes to be ready after a million events of each kind that it remembers."""

from functools import partial

from benchmarks.roles import Role, run_roles
from benchmarks.run import Run
from benchmarks.servers.broker import Broker
from benchmarks.servers.server import cpu_seconds, resident_bytes
from benchmarks.workloads.node.event_history import MAKERS, make_history

FULL_EVENTS = 1_000_000
FEWER = {"topic changes": 10_000, "transactions": 100_000}
"""Topics are made and changed by people and by deployments; a million transactions take half an hour to make."""


def measure_start_up(run: Run) -> None:
    for kind in MAKERS:
        count = run.scale.count(FEWER.get(kind, FULL_EVENTS))
        run.attempt(f"start-up after {kind}", partial(_measure, run, kind, count))


def _measure(run: Run, kind: str, count: int) -> None:
    broker = Broker(run.scratch / "start-up")
    try:
        history = Role(make_history, (str(broker.data_dir), kind, count))
        run_roles({"history": history}, timeout=1_200)
        for how in ("kill -9", "clean stop"):
            with run.measuring("quiver", "start-up", detail=f"{count} {kind}, {how}") as metrics:
                broker.start()
                metrics["ready_s"] = broker.start_seconds
                metrics["cpu_s"] = cpu_seconds([broker.pid])
                metrics["resident_mb"] = resident_bytes(broker.pid) / 1e6
            broker.stop()
    finally:
        broker.discard()
