"""A result survives its file, and its tables show ratios to the best peer."""

from pathlib import Path

import pytest
from benchmarks.goals import judge
from benchmarks.measurement import Results
from benchmarks.reports.report import report
from benchmarks.reports.tables import name_best, number, with_range
from benchmarks.result import Result, read_result, write_result


def _result() -> Result:
    results = Results()
    for rate in (3.9e6, 4.0e6, 4.1e6):
        results.add("quiver", "publish", {"rate": rate}, size=100, durability="fsync")
        results.add("redis-streams", "publish", {"rate": rate / 40}, size=100, durability="synced every second")
    results.add("quiver", "publish", {"rate": 0.2e6}, size=1024, durability="fsync", detail="JSON")
    results.add("kafka", "publish", {"rate": 0.4e6}, size=1024, detail="JSON")
    results.add("quiver", "keyed publish", {"rate": 17e3}, size=100, durability="fsync", detail="1000 partitions")
    latency = {"ack_p50_ms": 1.0, "ack_p99_ms": 3.0, "receive_p50_ms": 2.0, "receive_p99_ms": 4.0}
    latency |= {"disk_p50_ms": 0.2, "disk_p99_ms": 0.6, "rate_achieved": 750.0, "calibration_python_ms": 5.0}
    results.add("quiver", "latency", latency, size=100, durability="fsync")
    results.add("quiver", "memory", {"growth_mb": 42.0}, detail="5 GB written and read")
    return Result(
        started="2026-11-15T12:00:00+00:00",
        seconds=12.0,
        scale="full",
        repetitions=3,
        command=[],
        machine={"processor": "p", "cores": 2, "memory_gib": 24, "system": "s"},
        source={"commit": "0123456789abcdef", "changed": False},
        versions={"python": "3.11.7"},
        subjects={},
        peers=["redis-streams", "kafka"],
        limits={
            "fdatasync after 4 KiB": {"sync_p99_ms": 1.25},
            "sequential write, fdatasync every MiB": {"rate_mb": 512.0},
        },
        measurements=results.all,
        goals=judge(results, {"redis-streams"}),
        skipped={"kafka": "no broker is given"},
        failed={},
    )


def test_written_and_read_again(tmp_path: Path) -> None:
    result = _result()
    path = write_result(result, tmp_path)
    assert path.name == "20261115T1200-full-01234567.json"
    assert read_result(path) == result


def test_the_tables_show_ratios_goals_limits_and_what_was_left_out() -> None:
    text = report(_result())
    row = next(line for line in text.splitlines() if line.startswith("| quiver "))
    assert "4.00 M (3.90 M-4.10 M) | 40.0 " in row
    assert "growth of resident memory while 5 GB pass" in text
    assert "sync_p99_ms 1.25" in text
    assert "- kafka: no broker is given" in text


def test_every_table_names_the_best_and_the_limits() -> None:
    text = report(_result())
    assert "Best · publish: quiver (4.00 M), of the peers redis-streams (100 k)." in text
    assert "Best · publish: kafka (400 k)." in text, "also where that is not us"
    assert "messages of 1024 B of JSON" in text
    assert "sequential write, fdatasync every MiB: 512 MB/s, 500 k msg/s" in text
    assert "## By key to 1000 partitions" in text
    row = next(line for line in text.splitlines() if "1.00 / 3.00" in line)
    assert "2.00 / 4.00" in row
    assert "0.20 / 0.60" in row
    assert "750" in row
    assert "The same piece of Python took 5.0 to 5.0 ms" in text


def test_the_best_latency_is_the_lowest() -> None:
    results = Results()
    for subject, value in (("quiver", 0.5), ("beanstalkd", 0.1), ("nats", 0.2)):
        results.add(subject, "latency", {"ack_p50_ms": value})
    assert name_best(results.all, "ack_p50_ms", ["beanstalkd", "nats"]) == "beanstalkd (0.1)"
    assert name_best(results.all, "receive_p50_ms", []) == ""


def test_one_repetition_has_no_range() -> None:
    results = Results()
    results.add("quiver", "x", {"rate": 5.0})
    assert with_range(results.all[0], "rate") == "5"
    results.add("quiver", "x", {"rate": 7.0})
    assert with_range(results.all[0], "rate") == "6 (5-7)"
    assert with_range(None, "rate") == ""


def test_best_is_highest_for_rates_and_lowest_for_everything_else() -> None:
    results = Results()
    for value in (1.0, 3.0, 2.0):
        results.add("quiver", "x", {"rate": value, "ack_p99_ms": value})
    [measurement] = results.all
    assert (measurement.median("rate"), measurement.best("rate")) == (2.0, 3.0)
    assert (measurement.median("ack_p99_ms"), measurement.best("ack_p99_ms")) == (2.0, 1.0)


@pytest.mark.parametrize(
    ("value", "text"), [(4_123_456.0, "4.12 M"), (56_789.0, "57 k"), (4_321.0, "4,321"), (0.1234, "0.123")]
)
def test_numbers_have_three_digits(value: float, text: str) -> None:
    assert number(value) == text
