"""A few seeds of the simulator, as its command runs them. `make simulate` runs a thousand."""

import os
import subprocess
import sys

COMMAND = [sys.executable, "-m", "quiver.testing.simulation"]


def test_a_few_seeds_pass_and_repeat_themselves() -> None:
    done = subprocess.run(
        [*COMMAND, "--seeds", "5", "--seconds", "15", "--processes", "1", "--twice"],
        env={**os.environ, "PYTHONHASHSEED": "random"},
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "5 seeds of 15 virtual seconds pass" in done.stdout
    assert not done.stderr
