"""A scripted broker with two topics, and a client of it."""

from collections.abc import Iterator

import pytest

import quiver
from quiver.client import Client
from unit.client.fake_native_broker import FakeBroker


@pytest.fixture
def broker() -> Iterator[FakeBroker]:
    with FakeBroker(orders=3, single=1) as fake:
        yield fake


@pytest.fixture
def q(broker: FakeBroker) -> Iterator[Client]:
    with quiver.connect(broker.address, timeout=10) as client:
        yield client
