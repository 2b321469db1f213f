"""Settings for every test: hypothesis is reproducible in CI and never fails a test for being slow."""

import os

import pytest
from hypothesis import HealthCheck, settings

_SLOW_IS_FINE = (HealthCheck.too_slow, HealthCheck.data_too_large)

settings.register_profile("ci", derandomize=True, deadline=None, database=None, suppress_health_check=_SLOW_IS_FINE)
settings.register_profile(
    "explore", deadline=None, database=None, suppress_health_check=_SLOW_IS_FINE, print_blob=True
)

settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci"))


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "long: has a longer version, which `make chaos` runs with QUIVER_LONG=1")
