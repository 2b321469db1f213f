"""A broker of several workers beside one of a single worker, in turns, from the same clients."""

from benchmarks.run import Run
from benchmarks.servers.broker import Broker
from benchmarks.workloads.workers.bulk import measure_bulk
from benchmarks.workloads.workers.consumers import measure_consumers
from benchmarks.workloads.workers.http_requests import measure_forwarded, measure_requests
from benchmarks.workloads.workers.kills import measure_kill
from benchmarks.workloads.workers.starts import measure_starts

COUNTS = (1, 2)


def measure_workers(run: Run) -> None:
    measure_starts(run)
    brokers = {count: Broker(run.scratch / f"workers-{count}", "--workers", str(count)).start() for count in COUNTS}
    try:
        for broker in brokers.values():
            broker.warm()
        for number in run.repetitions():
            for count, broker in brokers.items():
                measure_requests(run, broker, count, number)
                measure_consumers(run, broker, count, number)
                measure_bulk(run, broker, count, number)
            measure_forwarded(run, brokers[2], number)
            measure_kill(run, brokers[2], number)
    finally:
        for broker in brokers.values():
            broker.discard()
