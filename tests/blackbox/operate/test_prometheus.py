"""A real Prometheus scrapes a real broker, with the files of deploy/; every expression of the dashboards is asked."""

import json
import re
from pathlib import Path

import pytest

import quiver
from blackbox.operate.prometheus_process import PrometheusProcess
from blackbox.processes.broker_process import BrokerProcess
from blackbox.processes.strace_faults import inject
from quiver.model.errors import PartitionOffline

DEPLOY = Path(__file__).parents[3] / "deploy"


def configured(broker: BrokerProcess, directory: Path) -> Path:
    """The shipped configuration for this broker, at a faster pace."""
    text = (DEPLOY / "prometheus" / "prometheus.yml").read_text()
    assert "localhost:7480" in text
    text = text.replace("localhost:7480", f"127.0.0.1:{broker.http_port}").replace("15s", "1s")
    (directory / "quiver-alerts.yml").write_text((DEPLOY / "prometheus" / "quiver-alerts.yml").read_text())
    config = directory / "prometheus.yml"
    config.write_text(text)
    return config


def asked(expression: str) -> str:
    """As Grafana asks: variables are every value, and the interval of rates is known."""
    return re.sub(r"\$(instance|\w*topic|\w*group)", ".*", expression.replace("$__rate_interval", "1m"))


def test_prometheus_scrapes_the_broker_and_knows_every_expression(broker: BrokerProcess, tmp_path: Path) -> None:
    with quiver.connect(broker.address) as q:
        q.topics.create("orders", partitions=1)
        for _ in range(7):
            q.publish("orders", b"x")
        with q.stream("orders", group="billing") as stream:
            next(iter(stream))
        broker.request("POST", "/topics/orders/receive", {"group": "packers", "max_messages": 2})
        with PrometheusProcess(configured(broker, tmp_path), tmp_path) as prometheus:
            prometheus.wait_for('up{job="quiver"}', 1)
            prometheus.wait_for('quiver_published_messages_total{topic="orders"}', 7)
            q.publish("orders", b"x")
            prometheus.wait_for('quiver_published_messages_total{topic="orders"}', 8)
            prometheus.wait_for('quiver_queue_messages{group="packers", state="leased"}', 2)
            [group] = prometheus.get("rules")["groups"]
            assert {rule["health"] for rule in group["rules"]} <= {"ok", "unknown"}, group
            for path in sorted((DEPLOY / "grafana").glob("*.json")):
                for expression in expressions(path):
                    prometheus.get("query", query=asked(expression))
            broker.kill()
            prometheus.wait_for('up{job="quiver"}', 0)


def test_alerts_fire_when_a_sync_fails(broker: BrokerProcess, tmp_path: Path) -> None:
    with quiver.connect(broker.address, timeout=1) as q:
        q.topics.create("orders", partitions=1)
        q.publish("orders", b"before")
        with PrometheusProcess(configured(broker, tmp_path), tmp_path) as prometheus:
            prometheus.wait_for("quiver_sync_failures_total", 0)
            assert prometheus.value("ALERTS") is None
            with inject(broker.pid, "error=EIO"), pytest.raises(PartitionOffline):
                q.publish("orders", b"lost")
            for alert in ("QuiverPartitionsOffline", "QuiverSyncFailed"):
                prometheus.wait_for(f'ALERTS{{alertname="{alert}", alertstate="firing"}}', 1)


def expressions(path: Path) -> list[str]:
    panels = json.loads(path.read_text())["panels"]
    return [target["expr"] for panel in panels for target in panel.get("targets", ())]
