"""What the machine itself can do, measured in the same run: disk, fdatasync, loopback, memory."""

import ctypes
import os
import socket
import time
from collections.abc import Callable
from pathlib import Path

from benchmarks.measurement import Metrics
from benchmarks.payload import paced, payload
from benchmarks.percentiles import latency_metrics
from benchmarks.roles import Role, Watch, run_roles
from benchmarks.run import Run
from benchmarks.servers.server import HOST, free_port

MIB = 1 << 20


def measure_limits(run: Run) -> None:
    share = max(run.scale.share, 0.02)
    seconds = 6 * share + 0.5
    path = run.scratch / "limits.bin"
    pieces: dict[str, Callable[[], Metrics]] = {
        "sequential write, fdatasync every second": lambda: sequential_write(path, seconds),
        "sequential write, fdatasync every MiB": lambda: synced_write(path, int(512 * share) + 1, MIB),
        "write to the page cache": lambda: page_cache_write(path, int(1024 * share) + 1),
        "fdatasync after 4 KiB": lambda: synced_write(path, int(1000 * share) + 10, 4096),
        "loopback TCP, chunks of 1 MiB": lambda: loopback(seconds / 2),
        "loopback round trip of 100 B": lambda: round_trips(int(20_000 * share) + 10),
        "memory copy": lambda: memory_copy(128 * MIB),
    }
    for name, piece in pieces.items():
        if run.scale.settle:
            os.sync()
        run.limits[name] = {metric: round(value, 6) for metric, value in piece().items()}
        run.say(f"limit · {name}: " + ", ".join(f"{k} {v:,.3f}" for k, v in run.limits[name].items()))
    path.unlink(missing_ok=True)


def sequential_write(path: Path, seconds: float) -> Metrics:
    """One writer, fdatasync once a second; the rate includes the last fdatasync."""
    chunk = os.urandom(MIB)
    descriptor = os.open(path, os.O_CREAT | os.O_WRONLY | os.O_TRUNC, 0o600)
    syncs: list[float] = []
    written, begin = 0, time.monotonic()
    try:
        while time.monotonic() - begin < seconds:
            next_sync = time.monotonic() + 1
            while time.monotonic() < min(next_sync, begin + seconds):
                written += os.write(descriptor, chunk)
            syncs.append(_timed_sync(descriptor))
        took = time.monotonic() - begin
    finally:
        os.close(descriptor)
    return {"rate_mb": written / took / 1e6} | latency_metrics("sync", syncs)


def synced_write(path: Path, count: int, size: int, rate: float | None = None) -> Metrics:
    """Appends `size` bytes and syncs, again and again; with `rate` at that many a second."""
    chunk = os.urandom(size)
    descriptor = os.open(path, os.O_CREAT | os.O_WRONLY | os.O_TRUNC, 0o600)
    syncs: list[float] = []
    begin = time.monotonic()
    try:
        for _ in range(count) if rate is None else paced(count, rate):
            os.write(descriptor, chunk)
            syncs.append(_timed_sync(descriptor))
        took = time.monotonic() - begin
    finally:
        os.close(descriptor)
    return {"rate_mb": count * size / took / 1e6} | latency_metrics("sync", syncs)


def page_cache_write(path: Path, mebibytes: int) -> Metrics:
    chunk = os.urandom(MIB)
    descriptor = os.open(path, os.O_CREAT | os.O_WRONLY | os.O_TRUNC, 0o600)
    begin = time.monotonic()
    try:
        for _ in range(mebibytes):
            os.write(descriptor, chunk)
        took = time.monotonic() - begin
    finally:
        os.close(descriptor)
    return {"rate_mb": mebibytes * MIB / took / 1e6}


def loopback(seconds: float) -> Metrics:
    """Bytes from one Python process to another over TCP on this machine."""
    port = free_port()
    outcomes = run_roles({"sink": Role(_sink, (port,)), "source": Role(_source, (port, seconds))})
    sink = outcomes["sink"]
    return {"rate_mb": sink.result / sink.seconds / 1e6}


def round_trips(count: int) -> Metrics:
    """A request of 100 B and its answer between two Python processes with blocking sockets."""
    port = free_port()
    outcomes = run_roles({"echo": Role(_echo, (port,)), "caller": Role(_caller, (port, count))})
    return latency_metrics("round_trip", outcomes["caller"].result)


def memory_copy(size: int) -> Metrics:
    source, target = ctypes.create_string_buffer(size), ctypes.create_string_buffer(size)
    ctypes.memmove(target, source, size)
    took = []
    for _ in range(5):
        begin = time.monotonic()
        ctypes.memmove(target, source, size)
        took.append(time.monotonic() - begin)
    return {"rate_mb": size / min(took) / 1e6}


def _timed_sync(descriptor: int) -> float:
    begin = time.monotonic()
    os.fdatasync(descriptor)
    return time.monotonic() - begin


def _sink(port: int, watch: Watch) -> int:
    with socket.create_server((HOST, port)) as listener:
        watch.start()
        peer, _ = listener.accept()
        buffer, total = bytearray(MIB), 0
        while received := peer.recv_into(buffer):
            total += received
        watch.stop()
        return total


def _source(port: int, seconds: float, watch: Watch) -> None:
    chunk = payload(MIB)
    watch.start()
    with socket.create_connection((HOST, port)) as peer:
        while time.monotonic() - watch.started < seconds:
            peer.sendall(chunk)


def _echo(port: int, watch: Watch) -> None:
    with socket.create_server((HOST, port)) as listener:
        watch.start()
        peer, _ = listener.accept()
        peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        while request := peer.recv(4096):
            peer.sendall(request)


def _caller(port: int, count: int, watch: Watch) -> list[float]:
    request, took = payload(100), []
    watch.start()
    with socket.create_connection((HOST, port)) as peer:
        peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for _ in range(count):
            begin = time.monotonic()
            peer.sendall(request)
            peer.recv(4096)
            took.append(time.monotonic() - begin)
    return took
