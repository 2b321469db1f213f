"""Two checkouts in turns: ratios within a turn, better is above 1, a verdict only when every turn agrees."""

from pathlib import Path

import pytest
from benchmarks.measurement import Metrics, Results
from benchmarks.reports.against import Ratio, measure_against, ratios, show_ratios
from benchmarks.result import Result


def _result(metrics: Metrics) -> Result:
    results = Results()
    results.add("quiver", "publish", metrics, size=100, durability="fsync")
    return Result(
        started="",
        seconds=1.0,
        scale="quick",
        repetitions=1,
        command=[],
        machine={},
        source={},
        versions={},
        subjects={},
        peers=[],
        limits={},
        measurements=results.all,
        goals=[],
        skipped={},
        failed={},
    )


def _ratios(*turns: tuple[Metrics, Metrics]) -> dict[str, Ratio]:
    return {ratio.metric: ratio for ratio in ratios([(_result(base), _result(this)) for base, this in turns])}


def test_a_ratio_is_of_one_turn_however_the_machine_swings() -> None:
    found = _ratios(({"rate": 100.0}, {"rate": 90.0}), ({"rate": 200.0}, {"rate": 180.0}))
    assert found["rate"].by_turn == pytest.approx([0.9, 0.9])
    assert (found["rate"].base, found["rate"].this) == (150.0, 135.0)
    assert found["rate"].verdict == "worse"


def test_less_time_is_better() -> None:
    found = _ratios(({"ack_p99_ms": 2.0, "ack_max_ms": 9.0}, {"ack_p99_ms": 1.0, "ack_max_ms": 90.0}))
    assert found["ack_p99_ms"].by_turn == [2.0]
    assert "ack_max_ms" not in found, "a maximum is luck"


def test_cores_become_processor_time_per_message() -> None:
    base = {"rate": 1e6, "client_cores": 0.5, "server_cores": 1.0}
    this = {"rate": 2e6, "client_cores": 0.5, "server_cores": 1.0}
    found = _ratios((base, this))
    assert found["server_us_per_message"].base == pytest.approx(1.0)
    assert found["client_us_per_message"].by_turn == pytest.approx([2.0])


def test_turns_that_disagree_are_unclear_and_a_few_percent_are_nothing() -> None:
    turns = [({"rate": 100.0}, {"rate": rate}) for rate in (80.0, 90.0, 105.0)]
    assert _ratios(*turns)["rate"].verdict == "unclear"
    assert _ratios(({"rate": 100.0}, {"rate": 96.0}))["rate"].verdict == ""


def test_the_speed_of_the_processor_comes_first_and_noise_is_left_out() -> None:
    metrics = {"rate": 1.0, "foreign_cores": 0.2, "calibration_python_ms": 5.0}
    found = ratios([(_result(metrics), _result(metrics))])
    assert [(ratio.figure, ratio.metric) for ratio in found] == [
        ("the machine", "calibration_python_ms"),
        ("quiver · publish · 100 B · fsync", "rate"),
    ]
    assert "1.00 (1.00-1.00)" in show_ratios(found)


def test_a_turn_in_which_others_used_the_machine_does_not_count() -> None:
    loud = ({"rate": 100.0, "foreign_cores": 0.0}, {"rate": 50.0, "foreign_cores": 0.9})
    quiet = ({"rate": 100.0, "foreign_cores": 0.1}, {"rate": 99.0, "foreign_cores": 0.0})
    assert _ratios(loud, quiet)["rate"].by_turn == pytest.approx([0.99])
    assert _ratios(loud, quiet)["rate"].verdict == ""
    assert _ratios(loud, loud)["rate"].verdict == "noisy"


def test_what_only_one_of_them_measures_is_left_out() -> None:
    assert set(_ratios(({"rate": 1.0}, {"rate": 1.0, "new": 1.0}))) == {"rate"}


def test_a_directory_that_is_no_checkout_is_refused(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="not a checkout of Quiver"):
        measure_against(tmp_path, 1, [], tmp_path)
