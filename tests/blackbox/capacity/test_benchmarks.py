"""The benchmarks run against the shipped broker and leave a result that can be shown again."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]


def _benchmarks(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "benchmarks", *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=110, check=False)


def test_a_tiny_run_measures_quiver_and_leaves_a_result(tmp_path: Path) -> None:
    workloads = "publish,consume"
    ran = _benchmarks(
        *("--scale", "tiny", "--only", "quiver", "--workloads", workloads),
        *("--scratch", str(tmp_path), "--results", str(tmp_path / "results")),
    )
    assert ran.returncode == 0, ran.stderr
    [path] = (tmp_path / "results").iterdir()
    result = json.loads(path.read_text())
    assert not result["failed"]
    measured = {(m["subject"], m["workload"]) for m in result["measurements"]}
    assert measured >= {("quiver", workload) for workload in workloads.split(",")}
    assert ("quiver-single", "publish") in measured
    assert all(m["repetitions"] for m in result["measurements"])
    assert {"machine", "source", "versions", "limits", "method", "goals"} <= set(result)
    shown = _benchmarks("--show", str(path))
    assert shown.returncode == 0
    assert shown.stdout.strip() == ran.stdout.strip()


@pytest.mark.parametrize("workloads", ["both,http", "latency", "keyed"])
def test_every_workload_of_the_comparison_is_measured(workloads: str, tmp_path: Path) -> None:
    ran = _benchmarks(
        *("--scale", "tiny", "--only", "quiver", "--workloads", workloads, "--without-limits"),
        *("--scratch", str(tmp_path), "--results", str(tmp_path / "results")),
    )
    assert ran.returncode == 0, ran.stderr
    [path] = (tmp_path / "results").iterdir()
    result = json.loads(path.read_text())
    assert not result["failed"]
    measured = {(m["subject"], m["workload"], m["detail"]) for m in result["measurements"]}
    kinds = {name for _, name, _ in measured}
    if workloads == "keyed":
        for subject in ("quiver", "quiver-interval"):
            for workload in ("keyed publish", "keyed consume"):
                assert {(subject, workload, "20 partitions"), (subject, workload, "40 partitions")} <= measured
    else:
        assert kinds == set(workloads.split(","))


def test_two_checkouts_are_measured_in_turns(tmp_path: Path) -> None:
    ran = _benchmarks(
        *("--against", str(ROOT), "--turns", "1", "--scale", "tiny", "--workloads", "import"),
        *("--scratch", str(tmp_path)),
    )
    assert ran.returncode in (0, 1), ran.stderr
    assert "ratio, better above 1" in ran.stdout
    assert "calibration_python_ms" in ran.stdout
    assert "import quiver" in ran.stdout


@pytest.mark.parametrize("arguments", [["--workloads", "nonsense"], ["--scale", "huge"]])
def test_a_wrong_argument_names_the_choices(arguments: list[str]) -> None:
    ran = _benchmarks(*arguments)
    assert ran.returncode == 2
    assert "choose from" in ran.stderr
