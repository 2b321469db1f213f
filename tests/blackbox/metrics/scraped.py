"""GET /metrics, read by the parsers of prometheus_client."""

import urllib.request
from typing import Any

from prometheus_client.openmetrics import parser as openmetrics
from prometheus_client.parser import text_string_to_metric_families

from blackbox.processes.broker_process import BrokerProcess

OPEN_METRICS = "application/openmetrics-text;version=1.0.0;q=0.8,text/plain;version=0.0.4;q=0.3"


def text(broker: BrokerProcess, accept: str | None = None) -> tuple[str, str]:
    """Content type and body."""
    request = urllib.request.Request(broker.http + "/metrics", headers={"accept": accept} if accept else {})
    with urllib.request.urlopen(request, timeout=30) as answer:
        return answer.headers["content-type"], answer.read().decode()


def families(broker: BrokerProcess) -> dict[str, Any]:
    return {family.name: family for family in text_string_to_metric_families(text(broker)[1])}


def open_metrics_families(broker: BrokerProcess) -> dict[str, Any]:
    _, body = text(broker, OPEN_METRICS)
    return {family.name: family for family in openmetrics.text_string_to_metric_families(body)}


def values(broker: BrokerProcess, series: str, **labels: str) -> dict[tuple[str, ...], float]:
    """The samples of a series by name and labels, those that have these labels."""
    family = families(broker).get(series.removesuffix("_total"))
    return {
        (sample.name, *map(str, sample.labels.items())): sample.value
        for sample in (family.samples if family is not None else ())
        if labels.items() <= sample.labels.items()
    }


def total(broker: BrokerProcess, series: str, **labels: str) -> float:
    return sum(values(broker, series, **labels).values())
