"""The HTTP application over a fake broker, called without sockets."""

from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest

from quiver.gateways.http.application import Application
from quiver.gateways.http.node import NodeInfo
from quiver.gateways.http.routes import all_routes
from quiver.gateways.http.routes.node.health import Readiness
from quiver.model.limits import KIB, Limits
from quiver.system.files import Files
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
async def client(broker: FakeBroker, readiness: Readiness) -> AsyncIterator[httpx.AsyncClient]:
    node = NodeInfo(version="1.2.3", git_commit="abc", build_time="today", started=0)
    application = Application(all_routes(broker, node, readiness), broker.limits)
    transport = httpx.ASGITransport(application)
    headers = {"accept-encoding": "identity"}
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost", headers=headers) as client:
        yield client
