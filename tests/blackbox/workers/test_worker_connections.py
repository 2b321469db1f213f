"""One native port and one HTTP port for all workers: a connection reaches the worker that it names."""

import json
import os
import signal
import socket
import urllib.request
from pathlib import Path

import pytest

from blackbox.workers.worker_broker import WorkerBroker
from quiver.model.errors import QuiverError
from quiver.protocol.failure import error_of
from quiver.protocol.messages import Failure, GetMetadata, Hello, Metadata, Welcome
from quiver.protocol.packet import PacketReader, decode_response, encode_packet
from quiver.protocol.preface import PREFACE


class NativeConnection:
    def __init__(self, port: int, worker: int, *, at_once: bytes = b"") -> None:
        self._reader = PacketReader(1 << 24)
        self._packets: list[object] = []
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=20)
        hello = encode_packet(1, Hello([1], ["none"], ["arrow"], "test", worker))
        self.socket.sendall(PREFACE + hello + at_once)

    def next(self) -> object:
        while not self._packets:
            data = self.socket.recv(1 << 16)
            assert data, "the broker hung up"
            self._packets += [decode_response(packet.message_bytes) for packet in self._reader.feed(data)]
        found = self._packets.pop(0)
        if isinstance(found, Failure):
            raise error_of(found)
        return found


def test_a_connection_reaches_the_worker_that_it_names(tmp_path: Path) -> None:
    with WorkerBroker(tmp_path / "data", 3) as broker:
        port = broker.wait_ready().state["native_port"]
        for worker in (0, 1, 2) * 10:
            connection = NativeConnection(port, worker, at_once=encode_packet(2, GetMetadata(None)))
            welcome = connection.next()
            assert isinstance(welcome, Welcome)
            assert (welcome.worker, welcome.workers) == (worker, 3)
            assert isinstance(connection.next(), Metadata), "what followed the Hello was passed on with it"
            connection.socket.close()
        welcome = NativeConnection(port, -1).next()
        assert isinstance(welcome, Welcome)
        assert welcome.worker in (0, 1, 2)
        with pytest.raises(QuiverError, match="there is no worker 3; the last one is 2"):
            NativeConnection(port, 3).next()
        with urllib.request.urlopen(f"{broker.state['http']}/readyz") as response:
            assert response.status == 200
            json.loads(response.read())


def test_connections_wait_for_a_worker_that_is_started_again(tmp_path: Path) -> None:
    with WorkerBroker(tmp_path / "data", 2) as broker:
        state = broker.wait_ready().state
        old, supervisor = state["workers"][1]["pid"], state["pid"]
        connected = NativeConnection(state["native_port"], 1)
        connected.next()
        os.kill(supervisor, signal.SIGSTOP)  # so that nobody is in the place of worker 1 for a while
        os.kill(old, signal.SIGKILL)
        assert connected.socket.recv(1) == b"", "its connections end with it"
        connections = [NativeConnection(state["native_port"], worker) for worker in (0, 1, 1, 0)]
        assert isinstance(connections[0].next(), Welcome)
        assert isinstance(connections[3].next(), Welcome)
        os.kill(supervisor, signal.SIGCONT)
        for connection, worker in zip(connections[1:3], (1, 1), strict=True):
            welcome = connection.next()
            assert isinstance(welcome, Welcome)
            assert welcome.worker == worker
