"""Workers that may open no more files: what is open goes on, and everything else does when there is room again."""

import contextlib
import os
import resource
import socket
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import quiver
from blackbox.processes.broker_process import BrokerProcess, free_port, wait_until
from quiver.model.errors import QuiverError, TopicExists
from quiver.protocol.messages import Hello
from quiver.protocol.packet import encode_packet
from quiver.protocol.preface import PREFACE

WORKERS = 2
PARTITIONS = 4
CONNECTIONS = 60
SPARE_FILES = 8


def test_nothing_is_lost_while_no_file_can_be_opened(tmp_path: Path) -> None:
    arguments = ("--native-port", str(free_port()), "--workers", str(WORKERS))
    with BrokerProcess(tmp_path / "data", *arguments) as broker:
        pids = [worker["pid"] for worker in broker.workers]
        acked: list[bytes] = []
        with quiver.connect(broker.address, timeout="5s") as q:
            q.topics.create("t", partitions=PARTITIONS)
            publish(q, acked)
            with few_files(pids), crowd(broker.native_port):
                wait_until(lambda: "too many open files" in broker.log_text.lower(), 30, "a worker has no room")
                publish(q, acked)
                with contextlib.suppress(QuiverError):
                    q.topics.create("more", partitions=PARTITIONS)
                publish(q, acked)
            with contextlib.suppress(TopicExists):  # the one that was refused, or had no response
                q.topics.create("more", partitions=PARTITIONS)
            assert q.publish("more", b"x").offset == 0
        with quiver.connect(broker.address) as q:
            publish(q, acked)
            assert Counter(message.value for message in q.read("t", end="latest")) == Counter(acked)
        assert [worker["pid"] for worker in broker.workers] == pids, "none has ended"
        assert broker.request("GET", "/readyz")[0] == 200
        assert broker.terminate() == 0


def publish(q: quiver.Client, acked: list[bytes]) -> None:
    for partition in range(PARTITIONS):
        value = b"%d" % len(acked)
        q.publish("t", value, partition=partition)
        acked.append(value)


@contextlib.contextmanager
def few_files(pids: list[int]) -> Iterator[None]:
    """The workers may open only a few more than they have."""
    before = {pid: resource.prlimit(pid, resource.RLIMIT_NOFILE) for pid in pids}
    for pid, (_, hard) in before.items():
        highest = max(map(int, os.listdir(f"/proc/{pid}/fd")))
        resource.prlimit(pid, resource.RLIMIT_NOFILE, (highest + 1 + SPARE_FILES, hard))
    try:
        yield
    finally:
        for pid, limits in before.items():
            resource.prlimit(pid, resource.RLIMIT_NOFILE, limits)


@contextlib.contextmanager
def crowd(port: int) -> Iterator[None]:
    """Connections that name workers in turn, so that they are passed on, and do nothing."""
    with contextlib.ExitStack() as stack:
        for number in range(CONNECTIONS):
            sock = stack.enter_context(socket.create_connection(("127.0.0.1", port), timeout=20))
            hello = Hello([1], ["none"], ["arrow"], "crowd", number % WORKERS)
            with contextlib.suppress(OSError):  # it was closed for lack of room
                sock.sendall(PREFACE + encode_packet(1, hello))
        yield
