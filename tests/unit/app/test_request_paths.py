"""The list of files in docs/request-paths.md is what requests run through."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[3]


def test_the_documented_paths_are_those_that_requests_take() -> None:
    command = [sys.executable, "scripts/request_paths.py", "--check"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, stdin=subprocess.DEVNULL)
    assert done.returncode == 0, done.stderr
