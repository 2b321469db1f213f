"""Searches through JSON messages, with a probe that sees whether the event loop goes on; and a live tail of a busy
topic."""

import http.client
import json
import time
from typing import Any

import quiver
from benchmarks.json_orders import orders
from benchmarks.percentiles import latency_metrics
from benchmarks.roles import Role, Watch, run_roles
from benchmarks.run import Run
from benchmarks.servers.broker import Broker
from benchmarks.servers.server import HOST, cpu_seconds
from benchmarks.workloads.node.loop_stall import probe_livez

FULL_MESSAGES = 1_000_000
MESSAGE_BYTES = 400
SEARCHES = {
    "a field": "value.number > 30000",
    "a text": 'value.customer.name == "nobody at all"',
    "a pattern": 'matches(value.note, "zz+y")',
    "a calculation": "value.number * 2 > 60000",
}
"""Nothing fits, so that all messages are looked at. The bytes of no message have what the first three search for;
for the last, every message is decoded."""
TAIL_RATE, TAIL_SECONDS = 100_000, 10.0


def measure_search(run: Run) -> None:
    with Broker(run.scratch / "search") as broker:
        count = run.scale.count(FULL_MESSAGES)
        with quiver.connect(broker.address) as client:
            client.topics.create("orders", partitions=1)
            pool = orders(MESSAGE_BYTES, count)
            with client.producer("orders") as producer:
                for start in range(0, count, 10_000):
                    producer.send_many(
                        [pool[number % len(pool)] for number in range(start, min(start + 10_000, count))]
                    )
            client.topics.create("busy", partitions=1, durability="interval")
        for _ in run.repetitions():
            for name, where in SEARCHES.items():
                _search(run, broker, name, where, count)
            _tail(run, broker)


def _search(run: Run, broker: Broker, name: str, where: str, count: int) -> None:
    """The rate is messages per second of processor time: one core's, whatever else the machine does. The search runs
    again with the probe, whose requests take processor time too."""
    search = Role(_find, (broker.http_port, broker.pid, where))
    probe = Role(probe_livez, (broker.http_port, 1.0))
    with run.measuring("quiver", "search", size=MESSAGE_BYTES, detail=name, server_pids=[broker.pid]) as metrics:
        found, used = run_roles({"search": search})["search"].result
        if found["scanned_messages"] != count or found["matched"]:
            raise RuntimeError(f"{found['scanned_messages']} of {count} messages were looked at")
        metrics["rate"] = count / max(used, 0.01)
        metrics["rate_elapsed"] = count / found["seconds"]
        metrics |= latency_metrics("probe", run_roles({"search": search, "probe": probe})["probe"].result)


def _find(port: int, pid: int, where: str, watch: Watch) -> tuple[Any, float]:
    watch.start()
    before = cpu_seconds([pid])
    connection = http.client.HTTPConnection(HOST, port, timeout=60)

    def call(method: str, path: str, body: Any = None) -> Any:
        headers = {"Content-Type": "application/json"} if body else {}
        connection.request(method, path, json.dumps(body) if body else None, headers)
        return json.loads(connection.getresponse().read())

    job = call("POST", "/topics/orders/search", {"where": where, "max_seconds": 600})
    while job["state"] == "running":
        job = call("GET", f"/search/{job['id']}?wait=5s")
    watch.stop()
    return job, cpu_seconds([pid]) - before


def _tail(run: Run, broker: Broker) -> None:
    """Every message is shown or counted as left out, and the producer holds its rate."""
    seconds = max(1.0, TAIL_SECONDS * run.scale.share)
    roles = {"tail": Role(_follow, (broker.http_port,)), "publish": Role(_publish, (broker.address, seconds))}
    with run.measuring("quiver", "search", size=100, detail="live tail", server_pids=[broker.pid]) as metrics:
        outcomes = run_roles(roles)
        published, (shown, dropped) = outcomes["publish"].result, outcomes["tail"].result
        if shown + dropped != published:
            raise RuntimeError(f"of {published} messages {shown} were shown and {dropped} counted as left out")
        metrics["rate_published"] = published / outcomes["publish"].seconds
        metrics["rate_shown"] = shown / outcomes["publish"].seconds
        metrics["rate_left_out"] = dropped / outcomes["publish"].seconds
    with quiver.connect(broker.address) as client:
        client.topics.purge("busy")


def _follow(port: int, watch: Watch) -> tuple[int, int]:
    """Until nothing came for some time."""
    connection = http.client.HTTPConnection(HOST, port, timeout=60)
    connection.request("GET", "/topics/busy/tail?rate=100")
    answer = connection.getresponse()
    answer.readline()
    watch.start()
    shown = dropped = beats = 0
    while beats < 2:
        line = json.loads(answer.readline())
        beats = beats + 1 if "heartbeat" in line and shown else 0
        dropped += line.get("dropped", 0)
        shown += "offset" in line
    connection.close()
    return shown, dropped


def _publish(address: str, seconds: float, watch: Watch) -> int:
    sent, batch = 0, [b"x" * 100] * 1_000
    with quiver.connect(address) as client, client.producer("busy") as producer:
        watch.start()
        while (passed := time.monotonic() - watch.started) < seconds:
            if sent > passed * TAIL_RATE:
                time.sleep(0.002)
                continue
            producer.send_many(batch)
            sent += len(batch)
        producer.flush()
        watch.stop()
    return sent
