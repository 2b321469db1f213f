"""Verdicts: the median decides, a lucky repetition is called one, what was not measured is said."""

import pytest
from benchmarks.goals import Figure, Verdict, at_least, at_most, judge
from benchmarks.measurement import Results


@pytest.mark.parametrize(
    ("figure", "outcome"),
    [
        (Figure(median=3.0, best=4.0), "met"),
        (Figure(median=2.9, best=3.1), "best run only"),
        (Figure(median=2.0, best=2.5), "missed"),
        (None, "not measured"),
    ],
)
def test_at_least(figure: Figure | None, outcome: str) -> None:
    assert at_least("x", 3.0, "msg/s", figure).outcome == outcome


@pytest.mark.parametrize(
    ("figure", "outcome"),
    [
        (Figure(median=2.0, best=1.0), "met"),
        (Figure(median=3.5, best=2.9), "best run only"),
        (Figure(median=3.5, best=3.0), "missed"),
        (None, "not measured"),
    ],
)
def test_at_most(figure: Figure | None, outcome: str) -> None:
    assert at_most("x", 3.0, "ms", figure).outcome == outcome


def test_the_best_peer_is_the_one_with_the_highest_median() -> None:
    results = Results()
    for rate in (4.0e6, 4.2e6, 4.4e6):
        results.add("quiver", "publish", {"rate": rate}, size=100, durability="fsync")
    for rate in (100e3, 110e3, 900e3):
        results.add("lucky", "publish", {"rate": rate}, size=100)
    for rate in (390e3, 400e3, 410e3):
        results.add("steady", "publish", {"rate": rate}, size=100)
    verdict = _verdict(results, "publish in bulk against the best peer")
    assert verdict.median == pytest.approx(10.5)
    assert verdict.outcome == "met"


def test_fsync_latency_is_judged_above_the_raw_disk() -> None:
    results = Results()
    metrics = {"ack_p50_ms": 1.0, "ack_p99_ms": 9.9, "disk_p50_ms": 0.5, "disk_p99_ms": 9.0, "rate_achieved": 700.0}
    results.add("quiver", "latency", metrics, size=100, durability="fsync")
    assert _verdict(results, "publish to ack p99 with fsync, above the disk's").outcome == "met"
    assert _verdict(results, "publish to ack p50 with fsync, above the disk's").outcome == "missed"
    assert _verdict(results, "publish to ack with fsync, 1,000 a second wanted").outcome == "missed"


def test_kafka_counts_with_its_best_client_durability_and_compression() -> None:
    results = Results()
    for detail, ours, theirs in (("JSON", 0.25e6, 0.3e6), ("JSON, lz4", 0.6e6, 0.48e6), ("", 0.9e6, 0.4e6)):
        results.add("quiver", "publish", {"rate": ours}, size=1024, durability="fsync", detail=detail)
        results.add("quiver-interval", "publish", {"rate": 9e6}, size=1024, durability="interval", detail=detail)
        results.add("kafka", "publish", {"rate": theirs}, size=1024, detail=detail)
        results.add("kafka-flushed", "publish", {"rate": theirs / 2}, size=1024, detail=detail)
    assert _verdict(results, "publish 1 KB of JSON, fsync, against Kafka").median == pytest.approx(1.25)
    assert _verdict(results, "publish 1 KB, fsync, against Kafka").median == pytest.approx(2.25)


def test_large_bodies_are_judged_against_the_disk() -> None:
    results = Results()
    results.add("quiver", "publish", {"rate": 0.5e6}, size=1024, durability="fsync")
    limits = {"sequential write, fdatasync every MiB": {"rate_mb": 1024.0}}
    [verdict] = [v for v in judge(results, set(), limits) if "the disk's synced rate" in v.figure]
    assert verdict.median == pytest.approx(0.5)


def test_a_smaller_run_does_not_pass_for_the_whole() -> None:
    results = Results()
    results.add("quiver", "memory", {"growth_mb": 1.0}, detail="0.2 GB written and read")
    results.add("quiver", "startup", {"ready_s": 0.4}, detail="0.2 GB, 100 partitions, clean stop")
    assert {verdict.outcome for verdict in judge(results, set())} == {"not measured"}


def test_nothing_measured_is_no_success() -> None:
    assert {verdict.outcome for verdict in judge(Results(), set())} == {"not measured"}


def _verdict(results: Results, figure: str) -> Verdict:
    return next(verdict for verdict in judge(results, {"lucky", "steady"}) if verdict.figure == figure)
