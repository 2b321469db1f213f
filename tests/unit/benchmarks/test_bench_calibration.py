"""Calibration: fixed work, timed before and after a repetition and kept beside it."""

from pathlib import Path

from benchmarks.machine.calibration import calibrate, mean
from benchmarks.run import Run
from benchmarks.scale import TINY


def test_both_pieces_of_work_take_time() -> None:
    found = calibrate()
    assert set(found) == {"calibration_python_ms", "calibration_copy_ms"}
    assert all(0 < value < 10_000 for value in found.values())


def test_before_and_after_count_the_same() -> None:
    assert mean({"x": 4.0}, {"x": 6.0}) == {"x": 5.0}


def test_a_repetition_keeps_the_speed_of_the_machine(tmp_path: Path) -> None:
    run = Run(TINY, tmp_path)
    with run.measuring("quiver", "x") as metrics:
        metrics["rate"] = 1.0
    [measurement] = run.results.all
    assert measurement.median("calibration_python_ms") > 0
    assert measurement.median("calibration_copy_ms") > 0


def test_a_run_says_where_its_time_went(tmp_path: Path) -> None:
    run = Run(TINY, tmp_path)
    run.attempt("quick", lambda: None)
    run.attempt("broken", lambda: [][0])
    assert set(run.durations) == {"quick", "broken"}
    assert "IndexError" in run.failed["broken"]
