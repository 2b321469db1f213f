"""Single publishes over HTTP: 32 connections to whichever worker accepts them; and what passing one on costs.

The load comes from one process that shares the machine's cores with the broker, so it does as little as it can: it
sends a request when the response to the last one is there, and looks for the offset in the response.
"""

import http.client
import json
import select
import socket
import time
from typing import Any

import quiver
from benchmarks.percentiles import latency_metrics
from benchmarks.roles import Role, Watch, run_roles
from benchmarks.run import Run
from benchmarks.servers.broker import Broker
from benchmarks.servers.server import HOST, cpu_seconds

CONNECTIONS, PARTITIONS = 32, 16
MESSAGE_BYTES = 100
FULL_REQUESTS = 60_000
FULL_FORWARDED = 2_000


def measure_requests(run: Run, broker: Broker, workers: int, number: int) -> None:
    count = run.scale.count(FULL_REQUESTS)
    for durability in ("fsync", "interval"):
        topic = f"http-{durability}-{number}"
        with quiver.connect(broker.address) as client:
            client.topics.create(topic, partitions=PARTITIONS, durability=durability)
        detail = f"HTTP, {CONNECTIONS} connections, {workers} workers"
        with run.measuring(
            "quiver",
            "workers",
            size=MESSAGE_BYTES,
            durability=durability,
            detail=detail,
            server_pids=[broker.pid],
        ) as metrics:
            before = cpu_seconds([broker.pid])
            outcome = run_roles({"publish": Role(_publish, (broker.http_port, topic, count))})["publish"]
            metrics["rate"] = count / outcome.seconds
            metrics["broker_us_per_request"] = (cpu_seconds([broker.pid]) - before) / count * 1e6
            metrics["client_us_per_request"] = outcome.cpu_seconds / count * 1e6
            metrics |= latency_metrics("ack", outcome.result)


def measure_forwarded(run: Run, broker: Broker, number: int) -> None:
    """The same connection publishes in turns to a partition of its own worker and to one of another."""
    topic = f"forwarded-{number}"
    with quiver.connect(broker.address) as client:
        client.topics.create(topic, partitions=PARTITIONS, durability="interval")
    with run.measuring(
        "quiver",
        "workers",
        size=MESSAGE_BYTES,
        durability="interval",
        detail="HTTP, forwarded",
        server_pids=[broker.pid],
    ) as metrics:
        count = max(200, int(FULL_FORWARDED * run.scale.share))
        outcome = run_roles({"publish": Role(_publish_in_turns, (broker.http_port, topic, count))})["publish"]
        own, others = outcome.result
        metrics |= latency_metrics("own", own) | latency_metrics("forwarded", others)
        metrics["more_p50_ms"] = metrics["forwarded_p50_ms"] - metrics["own_p50_ms"]


def _request(topic: str, partition: int | None = None) -> bytes:
    message: dict[str, Any] = {"value": "x" * MESSAGE_BYTES}
    if partition is not None:
        message["partition"] = partition
    body = json.dumps({"messages": [message]}).encode()
    head = (
        f"POST /topics/{topic}/messages HTTP/1.1\r\nHost: {HOST}\r\n"
        f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body


def _publish(port: int, topic: str, count: int, watch: Watch) -> list[float]:
    """Seconds that each request took."""
    request, poll, now = _request(topic), select.epoll(), time.monotonic
    sockets: dict[int, socket.socket] = {}
    for _ in range(CONNECTIONS):
        connection = _connected(port)
        sockets[connection.fileno()] = connection
        poll.register(connection, select.EPOLLIN)
    watch.start()
    begun = {}
    for fd, connection in sockets.items():
        begun[fd] = now()
        connection.send(request)
    took: list[float] = []
    left = count - len(sockets)
    while len(took) < count:
        for fd, _ in poll.poll():
            connection = sockets[fd]
            _check(connection.recv(65_536))
            at = now()
            took.append(at - begun[fd])
            if left > 0:
                left -= 1
                begun[fd] = at
                connection.send(request)
    watch.stop()
    return took


def _publish_in_turns(port: int, topic: str, count: int, watch: Watch) -> tuple[list[float], list[float]]:
    connection = http.client.HTTPConnection(HOST, port)
    connection.connect()
    pid = _asked(connection, "/node")["pid"]
    cluster = _asked(connection, "/cluster?units=true")
    worker = next(each["worker"] for each in cluster["workers"] if each["pid"] == pid)
    owners = cluster["topics"][topic]
    requests = [
        _request(topic, owners.index(worker)),
        _request(topic, next(n for n, owner in enumerate(owners) if owner != worker)),
    ]
    sock, took = connection.sock, ([], [])  # type: tuple[Any, tuple[list[float], list[float]]]
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    watch.start()
    for _ in range(count):
        for request, seconds in zip(requests, took, strict=True):
            begin = time.monotonic()
            sock.sendall(request)
            _check(sock.recv(65_536))
            seconds.append(time.monotonic() - begin)
    watch.stop()
    return took


def _connected(port: int) -> socket.socket:
    connection = socket.create_connection((HOST, port))
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return connection


def _check(response: bytes) -> None:
    """The responses are small and come whole."""
    if not response.startswith(b"HTTP/1.1 200") or b'"offset"' not in response:
        raise RuntimeError(f"a publish got {response[:500]!r}")


def _asked(connection: http.client.HTTPConnection, path: str) -> Any:
    connection.request("GET", path)
    return json.loads(connection.getresponse().read())
