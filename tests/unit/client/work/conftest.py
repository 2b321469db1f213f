"""A scripted broker with queues, and a client of it."""

from collections.abc import Iterator

import pytest

import quiver
from quiver.client import Client
from unit.client.fake_queue_broker import FakeQueueBroker


@pytest.fixture
def broker() -> Iterator[FakeQueueBroker]:
    with FakeQueueBroker() as fake:
        yield fake


@pytest.fixture
def q(broker: FakeQueueBroker) -> Iterator[Client]:
    with quiver.connect(broker.address, timeout=10) as client:
        yield client
