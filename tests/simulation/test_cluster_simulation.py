"""A few seeds of simulated clusters, as the command runs them. `make simulate-cluster` runs hundreds."""

import os
import subprocess
import sys

import pytest

from quiver.testing.simulation.cluster.scenario import ClusterScenario
from quiver.testing.simulation.plan import Plan

COMMAND = [sys.executable, "-m", "quiver.testing.simulation", "--cluster"]


def test_a_seed_repeats_itself() -> None:
    done = subprocess.run(
        [*COMMAND, "--seeds", "1", "--seconds", "10", "--processes", "1", "--twice"],
        env={**os.environ, "PYTHONHASHSEED": "random"},
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert not done.stderr


@pytest.mark.parametrize("seed", [2, 3])
def test_a_few_seeds_pass(seed: int) -> None:
    assert ClusterScenario(seed, Plan(20)).run().violations == []
