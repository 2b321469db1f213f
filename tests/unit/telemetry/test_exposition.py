import msgspec
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.openmetrics import parser as openmetrics
from prometheus_client.parser import text_string_to_metric_families

from quiver.telemetry.exposition import Collected, Exposition, Series
from quiver.telemetry.histogram import Histogram

COUNT = Series("t_things_total", "counter", ("name",), "Things")
LEVEL = Series("t_level", "gauge", (), "A level", added_up=False)
TIME = Series("t_seconds", "histogram", ("name",), "Time")
INFO = Series("t_build_info", "info", ("version",), "What runs")
ALL = (COUNT, LEVEL, TIME, INFO)


def shown(collected: Collected, *, open_metrics: bool = False) -> str:
    return "".join(Exposition().lines(collected, ALL, open_metrics=open_metrics))


@given(st.text(), st.floats(allow_nan=False, allow_infinity=False, width=32))
def test_any_label_and_number_is_read_as_it_was_written(name: str, value: float) -> None:
    collected = Collected()
    collected.set(COUNT, abs(value), name)
    for parse, open_metrics in (
        (text_string_to_metric_families, False),
        (openmetrics.text_string_to_metric_families, True),
    ):
        [family] = parse(shown(collected, open_metrics=open_metrics))
        [sample] = family.samples
        assert (sample.name, sample.labels, sample.value) == ("t_things_total", {"name": name}, abs(value))


def test_buckets_are_cumulative_and_end_with_everything() -> None:
    collected, histogram = Collected(), Histogram((0.5, 1.0))
    for value in (0.1, 0.2, 0.7, 5.0):
        histogram.observe(value)
    collected.observe(TIME, histogram, "a")
    assert shown(collected) == (
        "# HELP t_seconds Time.\n# TYPE t_seconds histogram\n"
        't_seconds_bucket{name="a",le="0.5"} 2\n'
        't_seconds_bucket{name="a",le="1"} 3\n'
        't_seconds_bucket{name="a",le="+Inf"} 4\n'
        't_seconds_sum{name="a"} 6.0\n'.replace("6.0", "6")
        + 't_seconds_count{name="a"} 4\n'
    )


def test_exemplars_are_shown_in_open_metrics_only() -> None:
    collected, histogram = Collected(), Histogram((0.5, 1.0))
    histogram.observe(0.7)
    histogram.trace(0.7, "ab" * 16, 1_700_000_000_123)
    collected.observe(TIME, histogram, "a")
    assert "#" not in shown(collected).split("histogram\n")[1]
    [family] = openmetrics.text_string_to_metric_families(shown(collected, open_metrics=True))
    [exemplar] = [sample.exemplar for sample in family.samples if sample.exemplar]
    assert (exemplar.labels, exemplar.value) == ({"trace_id": "ab" * 16}, 0.7)
    assert float(exemplar.timestamp) == 1_700_000_000.123


def test_information_and_series_without_values() -> None:
    collected = Collected()
    collected.set(INFO, 1, "1.2")
    assert shown(collected) == (
        '# HELP t_build_info What runs.\n# TYPE t_build_info gauge\nt_build_info{version="1.2"} 1\n'
    )
    [family] = openmetrics.text_string_to_metric_families(shown(collected, open_metrics=True))
    assert (family.name, family.type) == ("t_build", "info")


def test_many_lines_come_in_pieces() -> None:
    collected = Collected()
    for number in range(2_000):
        collected.set(COUNT, number, str(number))
    pieces = list(Exposition().lines(collected, ALL, open_metrics=False))
    assert max(piece.count("\n") for piece in pieces) <= 500
    assert sum(piece.count("\n") for piece in pieces) == 2_002


def test_numbers_of_several_processes_are_added_up_and_travel_as_data() -> None:
    one, other = Collected(), Collected()
    for collected, value in ((one, 3), (other, 4)):
        histogram = Histogram((0.5, 1.0))
        histogram.observe(0.1 * value)
        collected.set(COUNT, value, "a")
        collected.set(LEVEL, value)
        collected.observe(TIME, histogram, "a")
    other.set(COUNT, 9, "b")
    received = msgspec.msgpack.decode(msgspec.msgpack.encode(other), type=Collected)
    one.merge(received, ALL)
    assert one.numbers == {"t_things_total": {("a",): 7, ("b",): 9}, "t_level": {(): 4}}
    assert one.histograms["t_seconds"][("a",)].counts == [2, 0, 0]
