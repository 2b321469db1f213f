"""The HTTP application over a fake broker, on a port of its own."""

import socket
from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest

from quiver.gateways.http.application import Application
from quiver.gateways.http.node import NodeInfo
from quiver.gateways.http.routes import all_routes
from quiver.gateways.http.routes.node.health import Readiness
from quiver.gateways.http.wire.server import HttpServer
from quiver.model.limits import KIB, Limits
from quiver.system.files import Files
from quiver.system.memory_budget import DEFAULT_BYTES, MemoryBudget
from quiver.telemetry.loop_lag import LoopLag
from unit.gateways.fake_broker import FakeBroker


@pytest.fixture
def broker() -> FakeBroker:
    fake = FakeBroker(Limits(request_bytes=512 * KIB))
    fake.add_topic("orders", partitions=2)
    fake.add_topic("single")
    return fake


@pytest.fixture
def readiness(broker: FakeBroker, tmp_path: Path) -> Readiness:
    return Readiness(broker, lag=LoopLag(), files=Files(), data_dir=tmp_path, min_free_bytes=1)


@pytest.fixture
def budget() -> MemoryBudget:
    return MemoryBudget(DEFAULT_BYTES)


@pytest.fixture
def application(broker: FakeBroker, readiness: Readiness, budget: MemoryBudget) -> Application:
    node = NodeInfo(version="1.2.3", git_commit="abc", build_time="today", started=0)
    return Application(all_routes(broker, node, readiness), broker.limits, budget)


@pytest.fixture
async def client(
    broker: FakeBroker, application: Application, budget: MemoryBudget
) -> AsyncIterator[httpx.AsyncClient]:
    server = HttpServer(application.begin, budget, broker.clock.now_ms)
    listener = socket.create_server(("127.0.0.1", 0))
    listener.setblocking(False)
    await server.start(listener, 30.0, KIB)
    url, headers = f"http://127.0.0.1:{listener.getsockname()[1]}", {"accept-encoding": "identity"}
    async with httpx.AsyncClient(base_url=url, headers=headers) as client:
        yield client
    await server.stop(grace=0.5)
