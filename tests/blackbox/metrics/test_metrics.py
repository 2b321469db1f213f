"""GET /metrics of the shipped program: every series moves, and the text is what Prometheus expects."""

import contextlib
import urllib.request
from collections.abc import Callable, Iterator

import pytest

import quiver
from blackbox.callers.http_queue import HttpQueue
from blackbox.metrics.scenarios import CONSTANT, ELSEWHERE, SCENARIOS, Stage
from blackbox.metrics.scraped import families, open_metrics_families, text, total, values
from blackbox.processes.broker_process import BrokerProcess, wait_until
from blackbox.processes.strace_faults import inject
from quiver.metrics.series import ALL, PROCESS_START, RECOVERY
from quiver.model.errors import PartitionOffline
from quiver.telemetry.exposition import Series

SECONDS = 60.0
RESTARTED = {PROCESS_START, RECOVERY}


def test_every_series_has_a_scenario() -> None:
    assert SCENARIOS.keys() | CONSTANT.keys() | ELSEWHERE.keys() == set(ALL)


@pytest.mark.parametrize("series", sorted(SCENARIOS.keys() - RESTARTED), ids=lambda series: series.name)
def test_every_series_moves(series: Series, shared_broker: BrokerProcess, q: quiver.Client) -> None:
    stage = Stage(shared_broker, q)
    _check_that_it_moves(series, stage)


@pytest.mark.parametrize("series", sorted(RESTARTED), ids=lambda series: series.name)
def test_what_tells_of_the_start_moves_with_a_restart(
    series: Series, start_broker: Callable[..., BrokerProcess]
) -> None:
    broker = start_broker()
    with quiver.connect(broker.address) as q:
        stage = Stage(broker, q)
    _check_that_it_moves(series, stage)


def test_a_sync_that_fails_is_counted(broker: BrokerProcess) -> None:
    with quiver.connect(broker.address, timeout=1) as q:
        q.topics.create("orders", partitions=1)
        q.publish("orders", b"before")
        q.topics.create("unsynced", partitions=1, durability="memory")
        q.publish("unsynced", b"before")
        assert total(broker, "quiver_sync_failures_total") == 0
        assert total(broker, "quiver_trace_events_dropped_total") == 0
        with inject(broker.pid, "error=EIO"):
            with pytest.raises(PartitionOffline):
                q.publish("orders", b"lost")
            q.publish("unsynced", b"sampled", headers={"traceparent": f"00-{'a' * 32}-{'b' * 16}-01"})
            wait_until(lambda: total(broker, "quiver_trace_events_dropped_total"), SECONDS, "its span is dropped")
    assert total(broker, "quiver_sync_failures_total") > 0
    assert total(broker, "quiver_partitions", state="offline") == 1


def test_a_request_of_a_sampled_trace_is_the_example_of_its_bucket(shared_broker: BrokerProcess) -> None:
    trace_id = "4bf92f3577b34da6a3ce929d0e0e4736"
    for flags in ("01", "00"):
        headers = {"traceparent": f"00-{trace_id}-00f067aa0ba902b7-{flags}"}
        request = urllib.request.Request(shared_broker.http + "/version", headers=headers)
        with urllib.request.urlopen(request, timeout=30) as answer:
            answer.read()
        trace_id = "f" * 32
    family = open_metrics_families(shared_broker)["quiver_request_seconds"]
    found = {sample.exemplar.labels["trace_id"] for sample in family.samples if sample.exemplar}
    assert found == {"4bf92f3577b34da6a3ce929d0e0e4736"}, "the other trace is not sampled"


def _check_that_it_moves(series: Series, stage: Stage) -> None:
    labels = {"topic": stage.topic} if "topic" in series.labels else {}
    before = values(stage.broker, series.name, **labels)
    scenario = SCENARIOS[series](stage)
    with contextlib.closing(_as_context(scenario)):
        next(scenario)
        wait_until(lambda: values(stage.broker, series.name, **labels) != before, SECONDS, f"{series.name} moves")
        next(scenario, None)


def _as_context(scenario: Iterator[None]) -> Iterator[None]:
    assert hasattr(scenario, "close")
    return scenario


def test_the_text_has_types_and_meanings(shared_broker: BrokerProcess, q: quiver.Client) -> None:
    Stage(shared_broker, q)
    content_type, _ = text(shared_broker)
    assert content_type == "text/plain; version=0.0.4; charset=utf-8"
    known = {series.name.removesuffix("_total"): series for series in ALL}
    for name, family in families(shared_broker).items():
        series = known[name]
        assert family.type == ("gauge" if series.kind == "info" else series.kind)
        assert family.documentation == series.meaning + "."
        for sample in family.samples:
            assert sample.labels.keys() - {"le"} == set(series.labels)
            assert "partition" not in sample.labels


def test_open_metrics_by_accept(shared_broker: BrokerProcess) -> None:
    content_type, body = text(shared_broker, "application/openmetrics-text")
    assert content_type == "application/openmetrics-text; version=1.0.0; charset=utf-8"
    assert body.endswith("# EOF\n")
    found = open_metrics_families(shared_broker)
    assert found["quiver_build"].type == "info"
    assert found["quiver_requests"].type == "counter"
    assert found["quiver_publish_seconds"].type == "histogram"


@pytest.mark.parametrize("accept", ["*/*", "text/plain", "application/json", "application/openmetrics-text;q=0"])
def test_everybody_else_gets_the_older_text(shared_broker: BrokerProcess, accept: str) -> None:
    assert text(shared_broker, accept)[0].startswith("text/plain")


def test_counts_are_exact(shared_broker: BrokerProcess) -> None:
    queue = HttpQueue(shared_broker)
    queue.publish(*"abcde")
    first, second, *_ = queue.receive(max_messages=5)
    queue.call("POST", "/messages/ack", {"receipt_handle": first["receipt_handle"]})
    queue.call("POST", "/messages/nack", {"receipt_handle": second["receipt_handle"]})
    queue.call("GET", f"/topics/{queue.topic}/messages?partition=0&limit=3")
    of_topic = {"topic": queue.topic}
    assert total(shared_broker, "quiver_published_messages_total", **of_topic) == 5
    assert total(shared_broker, "quiver_deliveries_total", **of_topic, again="false") == 5
    assert total(shared_broker, "quiver_settled_total", **of_topic, action="ack") == 1
    assert total(shared_broker, "quiver_settled_total", **of_topic, action="nack") == 1
    assert total(shared_broker, "quiver_read_messages_total", **of_topic, kind="browse") == 3
    assert total(shared_broker, "quiver_read_messages_total", **of_topic, kind="receive") == 5


def test_a_deleted_topic_has_no_series_and_a_new_one_with_its_name_begins_again(shared_broker: BrokerProcess) -> None:
    queue = HttpQueue(shared_broker)
    queue.publish(*"abc")
    assert total(shared_broker, "quiver_published_messages_total", topic=queue.topic) == 3
    queue.call("DELETE", f"/topics/{queue.topic}")
    assert not values(shared_broker, "quiver_published_messages_total", topic=queue.topic)
    queue.call("POST", "/topics", {"name": queue.topic}, status=201)
    queue.publish("a")
    assert total(shared_broker, "quiver_published_messages_total", topic=queue.topic) == 1


def test_failed_requests_are_counted_by_code(shared_broker: BrokerProcess) -> None:
    labels = {"gateway": "http", "operation": "GET /topics/{topic}", "code": "topic_not_found"}
    before = total(shared_broker, "quiver_requests_total", **labels)
    assert shared_broker.request("GET", "/topics/nowhere")[0] == 404
    assert total(shared_broker, "quiver_requests_total", **labels) == before + 1
