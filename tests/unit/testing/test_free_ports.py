"""Ports that tests start servers on: no two of them get the same, in one process or in several."""

import random
import subprocess
import sys
from pathlib import Path

import pytest

from free_port import free_port

_TESTS = Path(__file__).parents[2]


def test_a_process_gets_no_port_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    taken = free_port()
    following = iter([taken, taken, free_port()])
    monkeypatch.setattr(random.SystemRandom, "randint", lambda *_: next(following))
    with pytest.raises(StopIteration):  # none of the three is free any more
        free_port()


def test_no_other_process_gets_it() -> None:
    taken = free_port()
    program = (
        "import random, free_port\n"
        f"chosen = iter([{taken}, {taken}, free_port.free_port()])\n"
        "random.SystemRandom.randint = lambda *_: next(chosen)\n"
        "free_port.free_port()\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=_TESTS, capture_output=True, text=True, timeout=60, check=False
    )
    assert "StopIteration" in done.stderr
