"""What `make check` runs beside the tests, so that CI runs it too."""

import subprocess
import sys
from pathlib import Path

import pytest

from tidy.source_tree import ROOT

GATES = {
    "format": ["ruff", "format", "--check", "--quiet", "."],
    "lint": ["ruff", "check", "--quiet", "--output-format", "concise", "."],
    "layers": ["lint-imports", "--no-cache"],
    "types": ["mypy"],
    "generated code": ["python", "scripts/unasync.py", "--check"],
    "generated diagrams": ["python", "scripts/diagrams.py", "--check"],
}


@pytest.mark.timeout(400)
@pytest.mark.parametrize("gate", GATES)
def test_gate(gate: str) -> None:
    program, *arguments = GATES[gate]
    command = [str(Path(sys.executable).parent / program), *arguments]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, stdin=subprocess.DEVNULL)
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]
