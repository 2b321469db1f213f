"""Clients that vanish with a reset are noticed on both loops, also when the reset comes on the heels of data."""

import asyncio
import subprocess
import sys
from collections.abc import Callable, Coroutine
from typing import Any

import pytest
import uvloop

from quiver.gateways.native.gateway import NativeGateway
from quiver.protocol.messages import Fetch, FetchPart, Message, Ping, Produce
from quiver.protocol.packet import encode_packet
from quiver.protocol.preface import PREFACE
from unit.native.native_client import HELLO, ScriptedBroker, until

CLIENTS = 60
WAITING_FETCH = Fetch([FetchPart(1, 0, 0, 100)], max_wait_ms=60_000)


# A process of its own, so that data and reset can overtake the loop that serves them.
SEND_AND_RESET = """
import socket, struct, sys
port, count, hello, data = int(sys.argv[1]), int(sys.argv[2]), bytes.fromhex(sys.argv[3]), sys.stdin.buffer.read()
for _ in range(count):
    with socket.create_connection(("127.0.0.1", port)) as sock:
        sock.sendall(hello)
        sock.recv(65536)
        sock.sendall(data)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
"""


async def _serve_resets(data: bytes) -> None:
    broker = ScriptedBroker()
    broker.fetch_gate = asyncio.Event()
    gateway = NativeGateway(broker)
    await gateway.start()
    hello = PREFACE + encode_packet(1, HELLO)
    command = [sys.executable, "-c", SEND_AND_RESET, str(gateway.port), str(CLIENTS), hello.hex()]
    await asyncio.to_thread(subprocess.run, command, input=data, check=True)
    await until(lambda: gateway.counts.connections_total == CLIENTS, "all clients came")
    await until(lambda: gateway.counts.connections_open == 0, "all clients are gone")
    await gateway.stop()


@pytest.mark.parametrize("run", [asyncio.run, uvloop.run], ids=["asyncio", "uvloop"])
@pytest.mark.parametrize(
    ("message", "payload"),
    [
        (WAITING_FETCH, b""),
        (Produce(1, 0, 0, acks=0), bytes(1000)),
        (Produce(1, 0, 0), bytes(3_000_000)),
        (Ping(), b""),
    ],
    ids=["fetch", "small", "large", "ping"],
)
def test_no_connection_outlives_its_reset(
    run: Callable[[Coroutine[Any, Any, None]], None], message: Message, payload: bytes
) -> None:
    run(_serve_resets(encode_packet(7, message, len(payload)) + payload))
