"""Gateways on free ports, stopped after the test."""

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, cast

import pytest

from quiver.broker.broker import Broker
from quiver.gateways.native.gateway import NativeGateway
from quiver.gateways.native.settings import NativeSettings
from unit.native.native_client import NativeClient, ScriptedBroker

Connect = Callable[..., Awaitable[NativeClient]]


@pytest.fixture
def broker() -> ScriptedBroker:
    return ScriptedBroker()


@pytest.fixture
async def start_gateway(broker: ScriptedBroker) -> AsyncIterator[Callable[..., Awaitable[NativeGateway]]]:
    """Starts a gateway with settings of the test's choice in front of the scripted broker."""
    gateways: list[NativeGateway] = []

    async def start(**settings: Any) -> NativeGateway:
        gateway = NativeGateway(
            cast(Broker, broker),
            settings=NativeSettings(**({"linger_seconds": 0.2} | settings)),
        )
        await gateway.start()
        gateways.append(gateway)
        return gateway

    yield start
    for gateway in gateways:
        await gateway.stop(0)


@pytest.fixture
async def connect() -> AsyncIterator[Connect]:
    """Clients that are closed after the test."""
    clients: list[NativeClient] = []

    async def connect_to(gateway: NativeGateway, *, greet: bool = True) -> NativeClient:
        client = await NativeClient.connect(gateway.port)
        clients.append(client)
        if greet:
            await client.greet()
        return client

    yield connect_to
    for client in clients:
        client.close()
