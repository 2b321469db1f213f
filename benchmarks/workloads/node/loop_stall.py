"""Whether the broker's event loop stalls while slow clients read 10,000 messages at a time.

Seen from outside: a probe asks /livez again and again. Its slowest answer bounds the longest stall from above; it
also holds what the machine's scheduler does, so the same probe runs without the slow clients first.
"""

import http.client
import socket
import time

import quiver
from benchmarks.payload import bodies
from benchmarks.percentiles import latency_metrics
from benchmarks.roles import Role, Watch, run_roles
from benchmarks.run import Run
from benchmarks.servers.broker import Broker
from benchmarks.servers.server import HOST

TOPIC = "stall"
PAGE, MESSAGE_BYTES = 10_000, 100
FULL_SECONDS = 5.0


def measure_loop_stall(run: Run) -> None:
    seconds = max(1.0, FULL_SECONDS * run.scale.share)
    with Broker(run.scratch / "stall") as broker:
        with quiver.connect(broker.address) as client:
            client.topics.create(TOPIC, partitions=1)
            with client.producer(TOPIC) as producer:
                producer.send_many([body.hex().encode() for body in bodies(MESSAGE_BYTES // 2, PAGE * 10)])
        probe = Role(probe_livez, (broker.http_port, seconds))
        slow = {
            "http": Role(_read_http_slowly, (broker.http_port, seconds)),
            "native": Role(_read_native_slowly, (broker.address, seconds)),
        }
        for _ in run.repetitions():
            _measure(run, broker, "without slow clients", {"probe": probe})
            _measure(run, broker, "with slow clients", {"probe": probe} | slow)


def _measure(run: Run, broker: Broker, detail: str, roles: dict[str, Role]) -> None:
    with run.measuring("quiver", "stall", detail=detail, server_pids=[broker.pid]) as metrics:
        outcomes = run_roles(roles)
        metrics |= latency_metrics("probe", outcomes["probe"].result)


def probe_livez(port: int, seconds: float, watch: Watch) -> list[float]:
    took: list[float] = []
    connection = http.client.HTTPConnection(HOST, port)
    connection.connect()
    watch.start()
    while time.monotonic() - watch.started < seconds:
        begin = time.monotonic()
        connection.request("GET", "/livez")
        answer = connection.getresponse()
        answer.read()
        took.append(time.monotonic() - begin)
        if answer.status != 200:
            raise RuntimeError(f"/livez answered {answer.status}")
        time.sleep(0.001)
    watch.stop()
    return took


def _read_http_slowly(port: int, seconds: float, watch: Watch) -> None:
    """Asks for a page of 10,000 messages and takes it in small pieces with pauses, again and again."""
    request = f"GET /topics/{TOPIC}/partitions/0/messages?offset=0&limit={PAGE} HTTP/1.1\r\nHost: {HOST}\r\n"
    watch.start()
    while time.monotonic() - watch.started < seconds:
        with socket.create_connection((HOST, port)) as connection:
            connection.sendall(request.encode() + b"Connection: close\r\n\r\n")
            while connection.recv(16_384) and time.monotonic() - watch.started < seconds:
                time.sleep(0.002)


def _read_native_slowly(address: str, seconds: float, watch: Watch) -> None:
    """Reads the topic through the SDK with a pause after every 10,000 messages."""
    with quiver.connect(address) as client:
        watch.start()
        while time.monotonic() - watch.started < seconds:
            for number, _ in enumerate(client.read(TOPIC, start="earliest", end="latest"), 1):
                if number % PAGE == 0:
                    time.sleep(0.02)
