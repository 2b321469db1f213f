"""Settings for every test: hypothesis is reproducible, signals work, the longest run first, files are closed."""

import gc
import os
import signal
import tempfile
import zlib
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from xdist.remote import Producer
from xdist.scheduler import LoadScopeScheduling

from etcd_cluster import EtcdCluster, program, running_etcd
from postgres_cluster import PostgresCluster, programs, running_cluster
from work_order import SharedTogetherLongestFirst

_SLOW_IS_FINE = (HealthCheck.too_slow, HealthCheck.data_too_large)

settings.register_profile("ci", derandomize=True, deadline=None, database=None, suppress_health_check=_SLOW_IS_FINE)
settings.register_profile(
    "explore", deadline=None, database=None, suppress_health_check=_SLOW_IS_FINE, print_blob=True
)

settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci"))


# A shell that starts the tests in the background makes them ignore interrupts, and what they start would too.
signal.signal(signal.SIGINT, signal.default_int_handler)

# Where Python may not leave compiled modules beside the sources, each of the hundreds of processes that tests start
# would compile all it loads again, which takes most of their start. So they are left elsewhere.
if os.environ.pop("PYTHONDONTWRITEBYTECODE", None):
    _compiled = Path(tempfile.gettempdir()) / f"quiver-tests-{os.getuid()}-pycache"
    os.environ.setdefault("PYTHONPYCACHEPREFIX", str(_compiled))


def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> LoadScopeScheduling:
    return SharedTogetherLongestFirst(config, log)


def pytest_collection_finish() -> None:
    """What collecting the tests has left stays: later garbage collections need not look at it."""
    gc.collect()
    gc.freeze()


MAX_LEFT_OPEN = 32


@pytest.fixture(scope="module", autouse=True)
def descriptors_are_closed(request: pytest.FixtureRequest) -> Iterator[None]:
    """A module that leaves many files or sockets open fails: thousands of tests share one process.

    A few may stay: pools that a library keeps, and what is closed in the background. Spark has a session for all.
    """
    before = len(os.listdir("/proc/self/fd"))
    yield
    if request.path.is_relative_to(Path(__file__).parent / "spark"):
        return
    if len(os.listdir("/proc/self/fd")) - before > MAX_LEFT_OPEN:
        gc.collect()  # what is only referred to in circles is not left open
    left = [_link(name) for name in os.listdir("/proc/self/fd")]
    assert len(left) - before <= MAX_LEFT_OPEN, f"{before} descriptors before, now {len(left)}: {sorted(left)}"


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresCluster]:
    """One PostgreSQL for all tests of a process, without fsync: tests of durability start their own."""
    if programs() is None:
        pytest.skip("PostgreSQL is not installed (scripts/system-packages installs it)")
    with running_cluster() as cluster:
        yield cluster


@pytest.fixture
def database(postgres: PostgresCluster, request: pytest.FixtureRequest) -> Iterator[str]:
    """The address of an empty schema of this test."""
    schema = f"test_{os.getpid()}_{zlib.crc32(request.node.nodeid.encode()):08x}"
    yield f"{postgres.address}?schema={schema}"
    postgres.sql(f"drop schema if exists {schema} cascade")


@pytest.fixture(scope="session")
def etcd() -> Iterator[EtcdCluster]:
    """One etcd for all tests of a process: tests of faults start their own."""
    if program() is None:
        pytest.skip("etcd is not installed (scripts/system-packages gets it)")
    with running_etcd() as cluster:
        yield cluster


def _link(name: str) -> str:
    try:
        return os.readlink(f"/proc/self/fd/{name}")
    except OSError:
        return ""


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "long: has a longer version, which `make chaos` runs with QUIVER_LONG=1")
