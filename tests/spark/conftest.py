"""One Spark session for every test, and brokers to read from and write to."""

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from blackbox.conftest import broker, shared_broker, start_broker
from blackbox.processes.broker_process import BrokerProcess
from work_order import WITHOUT_SPARK_SESSION

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["broker", "quick_spark", "shared_broker", "spark", "spark_broker", "start_broker"]

_HERE = Path(__file__).parent
_SECONDS = 400
"""A test may wait for a session, a driver and their Python workers on a machine that is busy with others."""
_QUICK_START = "-XX:TieredStopAtLevel=1"
"""The JVM compiles little: it does not live long."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if _HERE not in item.path.parents:
            continue
        if item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(_SECONDS))
        if item.nodeid.startswith(WITHOUT_SPARK_SESSION) and "spark" in getattr(item, "fixturenames", ()):
            raise pytest.UsageError(f"{item.nodeid} would start a second Spark session: see tests/work_order.py")


@pytest.fixture(scope="session")
def quick_spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Every Spark that is started from here on, in this process or another, starts quickly.

    Spark gives its Python workers a zip of pyspark's sources, which each of them compiles again. With a Spark home
    that lacks the zip, they import the installed package, which is compiled already.
    """
    if shutil.which("java") is None:
        pytest.skip("no Java: scripts/system-packages installs it")
    from pyspark.find_spark_home import _find_spark_home

    home = tmp_path_factory.mktemp("spark-home")
    for name in ("bin", "jars"):
        (home / name).symlink_to(Path(_find_spark_home()) / name)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SPARK_HOME", str(home))
        patch.setenv("SPARK_SUBMIT_OPTS", f"{os.environ.get('SPARK_SUBMIT_OPTS', '')} {_QUICK_START}")
        yield


@pytest.fixture(scope="session")
def spark(quick_spark: None) -> "Iterator[SparkSession]":
    """A local session on two cores. A task that fails is tried again, up to four times, as on a cluster."""
    import quiver_spark

    session = quiver_spark.session("quiver-tests", master="local[2,4]", spark_sql_shuffle_partitions=2)
    yield session
    session.stop()


@pytest.fixture(scope="session")
def spark_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    """One broker for all tests that disturb nothing but topics of their own."""
    with BrokerProcess(tmp_path_factory.mktemp("spark") / "data") as process:
        yield process
