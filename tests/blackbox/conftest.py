"""Fixtures that start the shipped program."""

import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import quiver
from blackbox.processes.broker_process import BrokerProcess
from blackbox.processes.cli_process import Cli

_ENDING_SECONDS = 30.0


@pytest.fixture(scope="module", autouse=True)
def clients_are_closed() -> Iterator[None]:
    """A module that leaves threads running fails: a client that was not closed reconnects until the suite ends."""
    before = set(threading.enumerate())
    yield
    deadline = time.monotonic() + _ENDING_SECONDS
    for thread in set(threading.enumerate()) - before:
        thread.join(max(0.0, deadline - time.monotonic()))
    left = [thread.name for thread in set(threading.enumerate()) - before]
    assert not left, f"threads that run on: {left}"


@pytest.fixture
def start_broker(tmp_path: Path) -> Iterator[Callable[..., BrokerProcess]]:
    """Starts brokers with arguments of the test's own; `start_broker("--log-level", "debug", data_dir=path)`."""
    started: list[BrokerProcess] = []

    def start(*args: str, data_dir: Path | None = None, wait: bool = True, **options: Any) -> BrokerProcess:
        process = BrokerProcess(data_dir or tmp_path / "data", *args, **options)
        started.append(process)
        return process.start(wait=wait)

    yield start
    for process in started:
        process.close()


@pytest.fixture
def broker(start_broker: Callable[..., BrokerProcess]) -> BrokerProcess:
    """A running broker with default settings on an empty data directory of this test."""
    return start_broker()


@pytest.fixture(scope="module")
def shared_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    """One broker for all tests of a module: for tests that disturb nothing but topics of their own."""
    with BrokerProcess(tmp_path_factory.mktemp("shared") / "data") as process:
        yield process


@pytest.fixture
def q(shared_broker: BrokerProcess) -> Iterator[quiver.Client]:
    """A client of the shared broker."""
    with quiver.connect(shared_broker.address) as client:
        yield client


@pytest.fixture
def cli(shared_broker: BrokerProcess) -> Cli:
    """The command line against the shared broker."""
    return Cli(shared_broker.address)
