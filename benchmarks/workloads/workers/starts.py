"""What starting takes, and what each worker keeps in memory with nothing to do."""

from benchmarks.run import Run
from benchmarks.servers.broker import Broker
from benchmarks.servers.server import resident_bytes

COUNTS = (1, 4)


def measure_starts(run: Run) -> None:
    for number in run.repetitions():
        for count in COUNTS:
            with run.measuring("quiver", "workers", detail=f"start, {count} workers") as metrics:
                broker = Broker(run.scratch / f"start-{count}-{number}", "--workers", str(count)).start()
                metrics["ready_s"] = broker.start_seconds
                metrics["worker_mb"] = max(resident_bytes(pid) for pid in broker.worker_pids()) / 1e6
                broker.discard()
