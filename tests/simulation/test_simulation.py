"""A few seeds of the simulator, as its command runs them. `make simulate` runs a thousand."""

import os
import subprocess
import sys

import pytest

from quiver.testing.simulation.scenario import Plan, Scenario

COMMAND = [sys.executable, "-m", "quiver.testing.simulation"]


@pytest.mark.parametrize("workers", [1, 2])
def test_a_few_seeds_pass_and_repeat_themselves(workers: int) -> None:
    options = ["--seeds", "4", "--seconds", "15", "--processes", "1", "--twice", "--workers", str(workers)]
    done = subprocess.run(
        [*COMMAND, *options],
        env={**os.environ, "PYTHONHASHSEED": "random"},
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "4 seeds of 15 virtual seconds pass" in done.stdout
    assert not done.stderr


def test_brokers_with_and_without_a_supervisor_side_by_side() -> None:
    """Seed 5082 has one of each; the one without is never started again by anybody if one worker of it is killed."""
    assert Scenario(5082, Plan(60)).run().violations == []
