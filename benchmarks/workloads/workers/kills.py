"""kill -9 of one worker of two, while a client of each publishes and waits for every ack."""

import itertools
import os
import signal
import time

import quiver
from benchmarks.roles import Role, Watch, run_roles
from benchmarks.run import Run
from benchmarks.servers.broker import Broker

PARTITIONS = 16
WORKER = 1
BEFORE_SECONDS, AFTER_SECONDS = 1.0, 2.0
PAUSE_SECONDS = 0.002


def measure_kill(run: Run, broker: Broker, number: int) -> None:
    """`served_again_ms`: from the kill to the first ack of the worker that replaced it."""
    topic = f"kills-{number}"
    with quiver.connect(broker.address) as client:
        client.topics.create(topic, partitions=PARTITIONS)
    owners = broker.units()[topic]
    with run.measuring("quiver", "workers", durability="fsync", detail="kill -9 of a worker") as metrics:
        roles = {
            f"worker {worker}": Role(_publish, (broker.address, topic, owners.index(worker)))
            for worker in (0, WORKER)
        }
        roles["kill"] = Role(_kill, (broker.worker_pids()[WORKER],))
        outcomes = run_roles(roles)
        killed = outcomes["kill"].result
        metrics["served_again_ms"] = (
            min(at for at in outcomes[f"worker {WORKER}"].result if at > killed) - killed
        ) * 1e3
        metrics["others_pause_ms"] = _longest_pause(outcomes["worker 0"].result, killed) * 1e3


def _publish(address: str, topic: str, partition: int, watch: Watch) -> list[float]:
    """When each ack came."""
    acks = []
    with quiver.connect(address) as client:
        client.publish(topic, b"first", partition=partition)
        watch.start()
        while time.monotonic() < watch.started + BEFORE_SECONDS + AFTER_SECONDS:
            client.publish(topic, b"value", partition=partition)
            acks.append(time.monotonic())
            time.sleep(PAUSE_SECONDS)
        watch.stop()
    return acks


def _kill(pid: int, watch: Watch) -> float:
    watch.start()
    time.sleep(BEFORE_SECONDS)
    at = time.monotonic()
    os.kill(pid, signal.SIGKILL)
    return at


def _longest_pause(acks: list[float], since: float) -> float:
    """Between two acks, from the last one before the time on."""
    later = [at for at in acks if at >= since]
    earlier = [at for at in acks if at < since][-1:]
    times = earlier + later
    return max(after - before for before, after in itertools.pairwise(times))
