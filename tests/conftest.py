"""Settings for every test: hypothesis is reproducible in CI and never fails a test for being slow; signals work."""

import os
import signal
import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from xdist.remote import Producer
from xdist.scheduler import LoadScopeScheduling

_SLOW_IS_FINE = (HealthCheck.too_slow, HealthCheck.data_too_large)

settings.register_profile("ci", derandomize=True, deadline=None, database=None, suppress_health_check=_SLOW_IS_FINE)
settings.register_profile(
    "explore", deadline=None, database=None, suppress_health_check=_SLOW_IS_FINE, print_blob=True
)

settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci"))


# A shell that starts the tests in the background makes them ignore interrupts, and what they start would too.
signal.signal(signal.SIGINT, signal.default_int_handler)

# Where Python may not leave compiled modules beside the sources, each of the hundreds of processes that tests start
# would compile all it loads anew, which takes most of their start. So they are left elsewhere.
if os.environ.pop("PYTHONDONTWRITEBYTECODE", None):
    _compiled = Path(tempfile.gettempdir()) / f"quiver-tests-{os.getuid()}-pycache"
    os.environ.setdefault("PYTHONPYCACHEPREFIX", str(_compiled))


class _TogetherWhatShares(LoadScopeScheduling):
    """A file is run by one worker, as its tests may share a broker, and so are all that share the Spark session."""

    def _split_scope(self, nodeid: str) -> str:
        shares_session = nodeid.startswith("tests/spark/") and "/without_session/" not in nodeid
        return "spark" if shares_session else nodeid.partition("::")[0]


def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> LoadScopeScheduling:
    return _TogetherWhatShares(config, log)


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "long: has a longer version, which `make chaos` runs with QUIVER_LONG=1")
