"""Fixtures that start the shipped program."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from blackbox.processes.broker_process import BrokerProcess


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
