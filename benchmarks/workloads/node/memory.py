"""The broker's resident size while gigabytes pass through it, written and read at the same time."""

import threading
from types import TracebackType

import quiver
from benchmarks.roles import Role, run_roles, span
from benchmarks.run import Run
from benchmarks.servers.broker import Broker
from benchmarks.servers.server import resident_bytes
from benchmarks.workloads.messages.filling import drain, fill

TOPIC = "memory"
MESSAGE_BYTES = 1024
WARM_UP = 10_000


class PeakMemory:
    """A with-block that looks at a process's resident size 20 times a second."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self.peak_bytes = resident_bytes(pid)

    def __enter__(self) -> "PeakMemory":
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._done.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._done.wait(0.05):
            self.peak_bytes = max(self.peak_bytes, resident_bytes(self._pid))


def measure_memory(run: Run) -> None:
    """Once: the growth from after a warm-up of 10 MB (everything is loaded) to the peak."""
    count = int(run.scale.gigabytes_through * 1e9 / MESSAGE_BYTES)
    with Broker(run.scratch / "memory") as broker:
        idle = resident_bytes(broker.pid)
        with quiver.connect(broker.address) as client:
            client.topics.create("warm-up")
            client.topics.create(TOPIC)
        _pass_through(broker, "warm-up", WARM_UP)
        before = resident_bytes(broker.pid)
        detail = f"{run.scale.gigabytes_through:g} GB written and read"
        with run.measuring(
            "quiver", "memory", size=MESSAGE_BYTES, durability="fsync", detail=detail, server_pids=[broker.pid]
        ) as metrics:
            with PeakMemory(broker.pid) as memory:
                seconds = _pass_through(broker, TOPIC, count)
            metrics["rate_mb"] = count * MESSAGE_BYTES / seconds / 1e6
            metrics["idle_mb"] = idle / 1e6
            metrics["before_mb"] = before / 1e6
            metrics["peak_mb"] = memory.peak_bytes / 1e6
            metrics["growth_mb"] = (memory.peak_bytes - before) / 1e6


def _pass_through(broker: Broker, topic: str, count: int) -> float:
    roles = {
        "consume": Role(drain, (broker.address, topic, count)),
        "produce": Role(fill, (broker.address, topic, count, MESSAGE_BYTES)),
    }
    return span(run_roles(roles, timeout=300))
