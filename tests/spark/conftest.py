"""One Spark session for every test, and brokers to read from and write to."""

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from blackbox.broker_process import BrokerProcess
from blackbox.conftest import broker, shared_broker, start_broker

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["broker", "shared_broker", "spark", "spark_broker", "start_broker"]

_HERE = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """They share the session, so one worker runs them all."""
    for item in items:
        if _HERE in item.path.parents:
            item.add_marker(pytest.mark.xdist_group("spark"))


@pytest.fixture(scope="session")
def spark() -> "Iterator[SparkSession]":
    """A local session on two cores."""
    if shutil.which("java") is None:
        pytest.skip("no Java: scripts/system-packages installs it")
    import quiver_spark

    session = quiver_spark.session("quiver-tests", master="local[2]", spark_sql_shuffle_partitions=2)
    yield session
    session.stop()


@pytest.fixture(scope="session")
def spark_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    """One broker for all tests that disturb nothing but topics of their own."""
    with BrokerProcess(tmp_path_factory.mktemp("spark") / "data") as process:
        yield process
