"""Writes the Grafana dashboards of deploy/grafana from the tables below: dashboards.py [--check]"""

import json
import sys
from pathlib import Path
from typing import Any, NamedTuple

FOLDER = Path(__file__).parent.parent / "deploy" / "grafana"
_WIDTH, _HEIGHT, _COLUMNS = 8, 8, 24
_STAT_WIDTH, _STAT_HEIGHT = 4, 4
_SOURCE = {"type": "prometheus", "uid": "${datasource}"}


class Query(NamedTuple):
    expr: str
    legend: str = ""


class Panel(NamedTuple):
    title: str
    unit: str
    queries: tuple[Query, ...]
    description: str = ""
    is_stat: bool = False


class Row(NamedTuple):
    title: str
    panels: tuple[Panel, ...]


class Dashboard(NamedTuple):
    title: str
    variables: tuple[str, ...]
    """Of `_VARIABLES`."""
    rows: tuple[Row, ...]


_VARIABLES = {
    "instance": "label_values(quiver_build_info, instance)",
    "topic": 'label_values(quiver_published_messages_total{instance=~"$instance"}, topic)',
    "queue_topic": 'label_values(quiver_queue_messages{instance=~"$instance"}, topic)',
    "queue_group": 'label_values(quiver_queue_messages{instance=~"$instance", topic=~"$queue_topic"}, group)',
    "group": 'label_values(quiver_group_lag_messages{instance=~"$instance"}, group)',
}


def graph(title: str, unit: str, *queries: tuple[str, str], note: str = "") -> Panel:
    return Panel(title, unit, tuple(Query(*query) for query in queries), note)


def stat(title: str, unit: str, expr: str, note: str = "") -> Panel:
    return Panel(title, unit, (Query(expr),), note, is_stat=True)


def rate(series: str, labels: str, by: str) -> str:
    return f"sum by ({by}) (rate(quiver_{series}{{{labels}}}[$__rate_interval]))"


def quantiles(series: str, labels: str, by: str = "") -> tuple[tuple[str, str], ...]:
    """Half, 99 % and 99.9 % of a histogram."""
    groups, legend = (f"{by}, le", f"{{{{{by}}}}} ") if by else ("le", "")
    inner = rate(f"{series}_bucket", labels, groups)
    return tuple((f"histogram_quantile({q}, {inner})", f"{legend}p{100 * q:g}") for q in (0.5, 0.99, 0.999))


_I = 'instance=~"$instance"'
_T = 'instance=~"$instance", topic=~"$topic"'
_Q = 'instance=~"$instance", topic=~"$queue_topic", group=~"$queue_group"'
_QT = 'instance=~"$instance", topic=~"$queue_topic"'
_G = 'instance=~"$instance", group=~"$group"'
_MESSAGES, _FRAMES = (rate(f"published_{what}_total", _T, "topic") for what in ("messages", "frames"))

OVERVIEW = Dashboard(
    "Quiver overview",
    ("instance",),
    (
        Row(
            "Now",
            (
                stat("Published", "cps", f"sum(rate(quiver_published_messages_total{{{_I}}}[$__rate_interval]))"),
                stat("Read", "cps", f"sum(rate(quiver_read_messages_total{{{_I}}}[$__rate_interval]))"),
                stat(
                    "Lag", "short", f"sum(quiver_group_lag_messages{{{_I}}})", "Messages that groups have not read."
                ),
                stat("Dead letters in 1 h", "short", f"sum(increase(quiver_dead_letters_total{{{_I}}}[1h]))"),
                stat("Free disk", "bytes", f"min(quiver_disk_free_bytes{{{_I}}})"),
                stat("Offline partitions", "short", f'sum(quiver_partitions{{{_I}, state="offline"}})'),
            ),
        ),
        Row(
            "Traffic",
            (
                graph(
                    "Messages per second",
                    "cps",
                    (f"sum(rate(quiver_published_messages_total{{{_I}}}[$__rate_interval]))", "published"),
                    (rate("read_messages_total", _I, "kind"), "read by {{kind}}"),
                ),
                graph(
                    "Bytes per second",
                    "Bps",
                    (f"sum(rate(quiver_published_bytes_total{{{_I}}}[$__rate_interval]))", "published"),
                    (rate("read_bytes_total", _I, "path"), "read by {{path}}"),
                ),
                graph("Time to acknowledge a publish", "s", *quantiles("publish_seconds", _I)),
            ),
        ),
        Row(
            "Work that is left",
            (
                graph(
                    "Lag of groups, messages",
                    "short",
                    (
                        f"topk(10, sum by (topic, group) (quiver_group_lag_messages{{{_I}}}))",
                        "{{group}} in {{topic}}",
                    ),
                ),
                graph(
                    "Lag of groups, time",
                    "s",
                    (f"topk(10, max by (topic, group) (quiver_group_lag_seconds{{{_I}}}))", "{{group}} in {{topic}}"),
                ),
                graph(
                    "Dead letters per second",
                    "cps",
                    (rate("dead_letters_total", _I, "topic, reason"), "{{topic}} {{reason}}"),
                ),
            ),
        ),
        Row(
            "Requests",
            (
                graph("Requests per second", "reqps", (rate("requests_total", _I, "gateway"), "{{gateway}}")),
                graph(
                    "Refused publishes per second",
                    "cps",
                    (rate("publish_refused_total", _I, "code"), "{{code}}"),
                ),
                graph("Connections", "short", (f"sum by (gateway) (quiver_connections{{{_I}}})", "{{gateway}}")),
            ),
        ),
    ),
)

TOPIC = Dashboard(
    "Quiver topic",
    ("instance", "topic"),
    (
        Row(
            "Traffic",
            (
                graph(
                    "Messages per second",
                    "cps",
                    (rate("published_messages_total", _T, "topic"), "{{topic}} published"),
                    (rate("read_messages_total", _T, "topic, kind"), "{{topic}} read by {{kind}}"),
                ),
                graph(
                    "Bytes per second",
                    "Bps",
                    (rate("published_bytes_total", _T, "topic"), "{{topic}} published"),
                    (rate("read_bytes_total", _T, "topic, path"), "{{topic}} read by {{path}}"),
                ),
                graph(
                    "Messages in a frame",
                    "short",
                    (f"{_MESSAGES} / {_FRAMES}", "{{topic}}"),
                    note="More messages in a frame cost the broker less for each.",
                ),
            ),
        ),
        Row(
            "What is stored",
            (
                graph("Size of the log", "bytes", (f"sum by (topic) (quiver_log_bytes{{{_T}}})", "{{topic}}")),
                graph(
                    "Removed by retention",
                    "Bps",
                    (rate("retention_removed_bytes_total", _T, "topic"), "{{topic}}"),
                ),
                graph(
                    "Removed by compaction",
                    "cps",
                    (rate("compaction_removed_messages_total", _T, "topic"), "{{topic}}"),
                ),
            ),
        ),
        Row(
            "Refused, repeated, delayed",
            (
                graph(
                    "Refused publishes per second",
                    "cps",
                    (rate("publish_refused_total", _T, "topic, code"), "{{topic}} {{code}}"),
                ),
                graph("Duplicates per second", "cps", (rate("publish_duplicates_total", _T, "topic"), "{{topic}}")),
                graph(
                    "Delayed messages", "short", (f"sum by (topic) (quiver_delayed_messages{{{_T}}})", "{{topic}}")
                ),
            ),
        ),
        Row(
            "Groups",
            (
                graph(
                    "Lag, messages",
                    "short",
                    (f"sum by (topic, group) (quiver_group_lag_messages{{{_T}}})", "{{group}} in {{topic}}"),
                ),
                graph(
                    "Lag, time",
                    "s",
                    (f"max by (topic, group) (quiver_group_lag_seconds{{{_T}}})", "{{group}} in {{topic}}"),
                ),
                graph(
                    "Dead letters per second",
                    "cps",
                    (rate("dead_letters_total", _T, "topic, group, reason"), "{{group}} {{reason}}"),
                ),
            ),
        ),
    ),
)

QUEUE = Dashboard(
    "Quiver queue",
    ("instance", "queue_topic", "queue_group"),
    (
        Row(
            "Work that is left",
            (
                graph(
                    "Messages by state",
                    "short",
                    (f"sum by (state) (quiver_queue_messages{{{_Q}}})", "{{state}}"),
                ),
                graph(
                    "Age of the oldest message",
                    "s",
                    (f"max by (topic, group) (quiver_queue_oldest_seconds{{{_Q}}})", "{{group}} in {{topic}}"),
                ),
                graph(
                    "Blocked keys",
                    "short",
                    (f"sum by (topic, group) (quiver_queue_blocked_keys{{{_Q}}})", "{{group}} in {{topic}}"),
                    note="Keys whose next message waits for one that is leased or retried.",
                ),
            ),
        ),
        Row(
            "Work that is done",
            (
                graph(
                    "Deliveries per second",
                    "cps",
                    (rate("deliveries_total", _Q, "topic, group, again"), "{{group}} again={{again}}"),
                ),
                graph(
                    "Settled per second",
                    "cps",
                    (rate("settled_total", _Q, "topic, group, action"), "{{group}} {{action}}"),
                ),
                graph(
                    "Lost leases and dead letters per second",
                    "cps",
                    (rate("leases_lost_total", _Q, "topic, group"), "{{group}} leases lost"),
                    (rate("dead_letters_total", _Q, "topic, group, reason"), "{{group}} dead: {{reason}}"),
                ),
            ),
        ),
        Row(
            "Time",
            (
                graph("From publish to delivery", "s", *quantiles("publish_to_delivery_seconds", _QT, "topic")),
                graph("From delivery to ack", "s", *quantiles("delivery_to_ack_seconds", _QT, "topic")),
            ),
        ),
    ),
)

GROUP = Dashboard(
    "Quiver group",
    ("instance", "group"),
    (
        Row(
            "Lag",
            (
                graph(
                    "Messages",
                    "short",
                    (f"sum by (group, topic) (quiver_group_lag_messages{{{_G}}})", "{{group}} in {{topic}}"),
                ),
                graph(
                    "Time",
                    "s",
                    (f"max by (group, topic) (quiver_group_lag_seconds{{{_G}}})", "{{group}} in {{topic}}"),
                ),
                graph(
                    "Change per second",
                    "cps",
                    (
                        f"sum by (group, topic) (deriv(quiver_group_lag_messages{{{_G}}}[5m]))",
                        "{{group}} in {{topic}}",
                    ),
                    note="Above zero the group falls behind, below it catches up.",
                ),
            ),
        ),
        Row(
            "Members",
            (
                graph("Members", "short", (f"sum by (group) (quiver_group_members{{{_G}}})", "{{group}}")),
                graph("Commits per second", "cps", (rate("commits_total", _G, "group"), "{{group}}")),
                graph(
                    "Rebalances in five minutes",
                    "short",
                    (
                        f"sum by (group, reason) (increase(quiver_rebalances_total{{{_G}}}[5m]))",
                        "{{group}} {{reason}}",
                    ),
                ),
                graph("Duration of rebalances, all groups", "s", *quantiles("rebalance_seconds", _I)),
            ),
        ),
    ),
)

NODE = Dashboard(
    "Quiver node",
    ("instance",),
    (
        Row(
            "Process",
            (
                graph(
                    "Processor",
                    "percentunit",
                    (f"rate(process_cpu_seconds_total{{{_I}}}[$__rate_interval])", "{{instance}}"),
                ),
                graph(
                    "Memory",
                    "bytes",
                    (f"process_resident_memory_bytes{{{_I}}}", "{{instance}} resident"),
                    (f"sum by (instance, what) (quiver_memory_held_bytes{{{_I}}})", "{{instance}} {{what}}"),
                ),
                graph(
                    "Open files",
                    "short",
                    (f"process_open_fds{{{_I}}}", "{{instance}} open"),
                    (f"process_max_fds{{{_I}}}", "{{instance}} allowed"),
                ),
            ),
        ),
        Row(
            "Event loop and requests",
            (
                graph("Delay of the event loop", "s", *quantiles("event_loop_lag_seconds", _I)),
                graph(
                    "Requests per second",
                    "reqps",
                    (f"topk(10, {rate('requests_total', _I, 'gateway, operation')})", "{{gateway}} {{operation}}"),
                ),
                graph("Time of requests", "s", *quantiles("request_seconds", _I, "gateway")),
            ),
        ),
        Row(
            "Disk",
            (
                graph(
                    "Free",
                    "bytes",
                    (f"quiver_disk_free_bytes{{{_I}}}", "{{instance}}"),
                ),
                graph(
                    "Local buffer while the database is away",
                    "short",
                    (f"quiver_buffer_messages{{{_I}}}", "messages that wait, {{instance}}"),
                    (
                        f"rate(quiver_buffered_messages_total{{{_I}}}[$__rate_interval])",
                        "put into it per second, {{instance}}",
                    ),
                ),
                graph("Size of the local buffer", "bytes", (f"quiver_buffer_bytes{{{_I}}}", "{{instance}}")),
                graph("Time of syncs", "s", *quantiles("sync_seconds", _I)),
                graph(
                    "Waiting to be written",
                    "bytes",
                    (f"sum by (instance) (quiver_write_queue_bytes{{{_I}}})", "{{instance}}"),
                ),
                graph(
                    "Largest topics", "bytes", (f"topk(10, sum by (topic) (quiver_log_bytes{{{_I}}}))", "{{topic}}")
                ),
                graph(
                    "Partitions",
                    "short",
                    (f"sum by (instance, state) (quiver_partitions{{{_I}}})", "{{instance}} {{state}}"),
                ),
                graph(
                    "Failed syncs",
                    "short",
                    (f"sum by (instance) (quiver_sync_failures_total{{{_I}}})", "{{instance}}"),
                ),
            ),
        ),
        Row(
            "Connections and starts",
            (
                graph(
                    "Connections",
                    "short",
                    (f"sum by (instance, gateway) (quiver_connections{{{_I}}})", "{{instance}} {{gateway}}"),
                ),
                graph("Duration of the last start", "s", (f"quiver_recovery_seconds{{{_I}}}", "{{instance}}")),
                graph("Waits of fetches", "s", *quantiles("fetch_wait_seconds", _I)),
            ),
        ),
        Row(
            "Replicated cluster",
            (
                graph(
                    "Units",
                    "short",
                    (f"sum by (instance, role) (quiver_cluster_units{{{_I}}})", "{{instance}} {{role}}"),
                    (f"quiver_cluster_units_behind{{{_I}}}", "{{instance}} behind"),
                    (f"quiver_cluster_units_refusing{{{_I}}}", "{{instance}} refusing"),
                    (f"quiver_cluster_logs_refusing{{{_I}}}", "{{instance}} logs refusing"),
                    note="Behind: not all replicas are in sync. Refusing: too few are, so messages are refused.",
                ),
                graph(
                    "What followers lack",
                    "bytes",
                    (f"sum by (instance, node) (quiver_replica_lag_bytes{{{_I}}})", "{{instance}} to node {{node}}"),
                ),
                graph(
                    "Leaderships begun in five minutes",
                    "short",
                    (f"increase(quiver_cluster_epochs_total{{{_I}}}[5m])", "{{instance}}"),
                ),
                graph(
                    "Frames that only their leader has acknowledged",
                    "ops",
                    (
                        "sum by (instance, topic)"
                        f" (rate(quiver_published_acks_leader_frames_total{{{_I}}}[$__rate_interval]))",
                        "{{instance}} {{topic}}",
                    ),
                ),
                graph(
                    "Read from replicas",
                    "Bps",
                    (f"rate(quiver_replica_read_bytes_total{{{_I}}}[$__rate_interval])", "{{instance}}"),
                ),
            ),
        ),
    ),
)

PIPELINE = Dashboard(
    "Quiver pipeline",
    ("instance", "topic"),
    (
        Row(
            "From topic to topic",
            (
                graph(
                    "Published by topic",
                    "cps",
                    (f"topk(20, {rate('published_messages_total', _T, 'topic')})", "{{topic}}"),
                ),
                graph(
                    "Read by topic",
                    "cps",
                    (f"topk(20, {rate('read_messages_total', _T, 'topic')})", "{{topic}}"),
                ),
                graph(
                    "Backlog by topic and group",
                    "s",
                    (f"topk(20, max by (topic, group) (quiver_group_lag_seconds{{{_T}}}))", "{{topic}} {{group}}"),
                    note="How far each step of a pipeline is behind the one before it.",
                ),
            ),
        ),
        Row(
            "Transactions",
            (
                graph("Ended per second", "cps", (rate("transactions_total", _I, "outcome"), "{{outcome}}")),
                graph("Open", "short", (f"sum by (instance) (quiver_transactions_open{{{_I}}})", "{{instance}}")),
                graph("Duration", "s", *quantiles("transaction_seconds", _I)),
            ),
        ),
        Row(
            "Traces",
            (
                graph(
                    "Spans written per second", "cps", (rate("trace_events_total", _I, "instance"), "{{instance}}")
                ),
                graph(
                    "Spans dropped per second",
                    "cps",
                    (rate("trace_events_dropped_total", _I, "instance"), "{{instance}}"),
                ),
            ),
        ),
        Row(
            "Delays and schedules",
            (
                graph(
                    "Delayed messages", "short", (f"sum by (topic) (quiver_delayed_messages{{{_T}}})", "{{topic}}")
                ),
                graph("Lateness of due messages", "s", *quantiles("delay_lateness_seconds", _I)),
                graph(
                    "Runs of schedules per second", "cps", (rate("schedule_runs_total", _I, "result"), "{{result}}")
                ),
            ),
        ),
    ),
)

DASHBOARDS = {
    "overview": OVERVIEW,
    "topic": TOPIC,
    "queue": QUEUE,
    "group": GROUP,
    "node": NODE,
    "pipeline": PIPELINE,
}


def dashboard_json(name: str, dashboard: Dashboard) -> dict[str, Any]:
    """A dashboard as Grafana imports it; the data source is chosen in it."""
    return {
        "uid": f"quiver-{name}",
        "title": dashboard.title,
        "tags": ["quiver"],
        "schemaVersion": 39,
        "editable": True,
        "graphTooltip": 1,
        "refresh": "15s",
        "time": {"from": "now-1h", "to": "now"},
        "timezone": "browser",
        "links": [
            {
                "type": "dashboards",
                "title": "Quiver",
                "tags": ["quiver"],
                "asDropdown": True,
                "includeVars": True,
                "keepTime": True,
            }
        ],
        "templating": {"list": [_data_source(), *(_variable(each) for each in dashboard.variables)]},
        "panels": _panels(dashboard.rows),
    }


def _data_source() -> dict[str, Any]:
    return {"name": "datasource", "label": "Data source", "type": "datasource", "query": "prometheus"}


def _variable(name: str) -> dict[str, Any]:
    return {
        "name": name,
        "label": name.rpartition("_")[2].capitalize(),
        "type": "query",
        "datasource": _SOURCE,
        "query": {"query": _VARIABLES[name], "refId": "variable"},
        "refresh": 2,
        "sort": 1,
        "multi": True,
        "includeAll": True,
        "allValue": ".*",
        "current": {"text": "All", "value": "$__all"},
    }


def _panels(rows: tuple[Row, ...]) -> list[dict[str, Any]]:
    panels: list[dict[str, Any]] = []
    y = 0
    for row in rows:
        place = {"h": 1, "w": _COLUMNS, "x": 0, "y": y}
        panels.append({"id": len(panels) + 1, "type": "row", "title": row.title, "gridPos": place, "panels": []})
        x, y, height = 0, y + 1, 0
        for panel in row.panels:
            width, height = (_STAT_WIDTH, _STAT_HEIGHT) if panel.is_stat else (_WIDTH, _HEIGHT)
            if x + width > _COLUMNS:
                x, y = 0, y + height
            place = {"h": height, "w": width, "x": x, "y": y}
            panels.append({"id": len(panels) + 1, "gridPos": place, **_panel(panel)})
            x += width
        y += height
    return panels


def _panel(panel: Panel) -> dict[str, Any]:
    defaults: dict[str, Any] = {"unit": panel.unit, "min": None if "Change" in panel.title else 0}
    if not panel.is_stat:
        defaults["custom"] = {"fillOpacity": 10, "lineWidth": 1, "showPoints": "never"}
    return {
        "type": "stat" if panel.is_stat else "timeseries",
        "title": panel.title,
        "description": panel.description,
        "datasource": _SOURCE,
        "fieldConfig": {"defaults": defaults, "overrides": []},
        "options": _STAT_OPTIONS if panel.is_stat else _GRAPH_OPTIONS,
        "targets": [
            {
                "refId": chr(ord("A") + number),
                "datasource": _SOURCE,
                "expr": query.expr,
                "legendFormat": query.legend or "__auto",
            }
            for number, query in enumerate(panel.queries)
        ],
    }


_STAT_OPTIONS = {"colorMode": "value", "graphMode": "area", "reduceOptions": {"calcs": ["lastNotNull"]}}
_GRAPH_OPTIONS = {
    "legend": {"displayMode": "list", "placement": "bottom"},
    "tooltip": {"mode": "multi", "sort": "desc"},
}


def written() -> dict[Path, str]:
    """Every file with its text."""
    return {
        FOLDER / f"quiver-{name}.json": json.dumps(dashboard_json(name, dashboard), indent=2) + "\n"
        for name, dashboard in DASHBOARDS.items()
    }


def main() -> int:
    files = written()
    old = [path for path, text in files.items() if not path.exists() or path.read_text() != text]
    if "--check" in sys.argv[1:]:
        for path in old:
            print(f"{path} is not what scripts/dashboards.py writes; run it", file=sys.stderr)
        return int(bool(old))
    FOLDER.mkdir(parents=True, exist_ok=True)
    for path, text in files.items():
        path.write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
