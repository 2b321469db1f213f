"""Queen's interface is the same on every engine: its tests run on files and on PostgreSQL."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from blackbox.processes.broker_process import BrokerProcess


@pytest.fixture(scope="module", params=["files", "postgresql"])
def engine(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def shared_broker(engine: str, request: pytest.FixtureRequest, tmp_path_factory: Any) -> Iterator[BrokerProcess]:
    """One broker for all tests of a module: for tests that disturb nothing but queues of their own."""
    arguments: tuple[str, ...] = ()
    if engine == "postgresql":
        cluster = request.getfixturevalue("postgres")
        schema = f"shared_{request.module.__name__.rpartition('.')[2]}"
        arguments = ("--storage", f"{cluster.address}?schema={schema}")
    with BrokerProcess(tmp_path_factory.mktemp("shared") / "data", *arguments) as process:
        yield process


@pytest.fixture
def start_broker(
    engine: str, request: pytest.FixtureRequest, tmp_path: Path
) -> Iterator[Callable[..., BrokerProcess]]:
    """Starts brokers with arguments of the test's own."""
    started: list[BrokerProcess] = []
    storage = ("--storage", request.getfixturevalue("database")) if engine == "postgresql" else ()

    def start(*args: str) -> BrokerProcess:
        process = BrokerProcess(tmp_path / "data", *storage, *args)
        started.append(process)
        return process.start()

    yield start
    for process in started:
        process.close()
