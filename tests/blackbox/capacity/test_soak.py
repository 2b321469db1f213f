"""`make soak`, shortened: it loads brokers, leaves samples, pictures and a verdict, and ends what it started."""

import json
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

from postgres_cluster import open_directory, programs

ROOT = Path(__file__).parents[3]


def _soak(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "benchmarks.soak", *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=110, check=False)


def _is_used(directory: Path) -> bool:
    """Whether a process was started on it."""
    for process in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if str(directory).encode() in process.read_bytes():
                return True
        except OSError:
            continue
    return False


@pytest.mark.timeout(120)
def test_a_short_run_records_everything_and_ends(tmp_path: Path) -> None:
    engine = "local" if programs() is None else "postgres"
    results = tmp_path / "results"
    with open_directory() as scratch:
        given = ("--seconds", "4", "--engines", engine, "--directory", str(results), "--scratch", str(scratch))
        ran = _soak(*given)
        assert ran.returncode == 0, ran.stderr
        assert not list(scratch.iterdir()), "the data is removed"
        assert not _is_used(scratch), "nothing that was started goes on"
    found = json.loads((results / "soak.json").read_text())
    assert [(run["engine"], run["kind"], run["verdict"]) for run in found["runs"]] == [
        (engine, "load", "too short"),
        (engine, "churn", "too short"),
    ]
    assert {"machine", "source", "versions", "started"} <= set(found)
    for run in found["runs"]:
        assert all(count > 0 for count in run["done"].values()), "every process did something"
        assert all(sample["memory_bytes"] > 10**7 and sample["store_bytes"] > 0 for sample in run["samples"])
        assert run["samples"][-1]["seconds"] >= 2
        assert engine == "local" or "frame_0" in run["samples"][-1]["tables"]
        ElementTree.fromstring((results / f"{engine}-{run['kind']}.svg").read_text())
        assert f"{engine}-{run['kind']}: too short" in ran.stdout


def test_wrong_arguments_say_what_is_allowed() -> None:
    assert "choose from local, postgres" in _soak("--engines", "floppy").stderr
    assert _soak("--seconds", "-1").returncode == 2
