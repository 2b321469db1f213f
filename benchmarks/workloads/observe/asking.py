"""Requests of somebody who looks, and the processor time that they cost the broker."""

import http.client
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.servers.broker import Broker
from benchmarks.servers.server import HOST, cpu_seconds


def ask(broker: Broker, method: str, path: str, body: Any = None) -> Any:
    connection = http.client.HTTPConnection(HOST, broker.http_port, timeout=60)
    try:
        headers = {"Content-Type": "application/json"} if body is not None else {}
        connection.request(method, path, None if body is None else json.dumps(body), headers)
        answer = connection.getresponse()
        data = answer.read()
        if answer.status >= 300:
            raise RuntimeError(f"{method} {path}: {answer.status} {data[:300]!r}")
        return json.loads(data) if "json" in (answer.getheader("content-type") or "") else data
    finally:
        connection.close()


def broker_seconds(broker: Broker, work: Callable[[], Any]) -> float:
    """Processor time of the broker while something is done, on all its threads."""
    before = cpu_seconds([broker.pid])
    work()
    return cpu_seconds([broker.pid]) - before


def loop_seconds(broker: Broker) -> float:
    """Processor time of the broker's event loop alone, to the nanosecond: its main thread."""
    return int(Path(f"/proc/{broker.pid}/task/{broker.pid}/schedstat").read_text().split()[0]) / 1e9


def idle_share(broker: Broker, seconds: float) -> float:
    """The share of a core that the broker uses while nobody asks for anything."""
    return broker_seconds(broker, lambda: time.sleep(seconds)) / seconds
