"""Workers call each other; a call to one that is killed fails, and the next one reaches its successor."""

import json
import signal
import subprocess
import sys
from pathlib import Path


def test_calls_survive_the_death_of_a_worker(tmp_path: Path) -> None:
    command = [sys.executable, str(Path(__file__).with_name("link_program.py")), str(tmp_path / "data")]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout is not None
            seen = json.loads(process.stdout.readline())
        finally:
            process.send_signal(signal.SIGTERM)
        assert process.wait(20) == 0
    before, after, other = seen["before"], seen["after"], seen["other"]
    assert (before["worker"], after["worker"], other["worker"]) == (1, 1, 2)
    assert before["pid"] != after["pid"]
    assert seen["error"] == "worker 1 of the broker is gone; try again"
    assert sorted({seen["own"], before["epoch"], other["epoch"]}) == [1, 2, 3], "every start has an epoch of its own"
    assert after["epoch"] == 4
