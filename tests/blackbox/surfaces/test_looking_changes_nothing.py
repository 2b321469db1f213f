"""Whoever looks changes nothing: every GET route, method and command that looks, beside messages of every kind.

What is on disk and what the broker shows are compared before and after, and delivery goes on as if nobody had looked.
A route, method or command that is not listed here fails: say whether it looks or changes something.
"""

import hashlib
import json
import time
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import typer

import quiver
from blackbox.callers.busy_broker import BusyBroker
from blackbox.callers.get_routes import LEASING, filled, get_routes
from blackbox.callers.http_caller import HttpCaller
from blackbox.callers.http_queue import values
from blackbox.processes.broker_process import BrokerProcess, wait_until
from blackbox.processes.cli_process import Cli
from quiver.cli.main import app

ROUNDS = 3
REST_SECONDS = 2.0
WELL_SECONDS = 60.0
"""How long an overloaded machine may keep the broker from being ready."""
TRACE = "0af7651916cd43dd8448eb211c80319c"
GROUPS = ["workers", "lanes", "pollers", "readers"]

ROUTES: dict[str, list[str]] = {
    "/": [""],
    "/cluster": ["", "?units=true"],
    "/cluster/health": [""],
    "/cluster/nodes": [""],
    "/cluster/partitions": ["", "?topic={topic}", "?limit=1"],
    "/admin/reassignment": [""],
    "/admin/reassignment/{id}": [""],
    "/admin/topics/{topic}/scaling-status": [""],
    "/console": [""],
    "/delay/stats": [""],
    "/docs": [""],
    "/groups": ["", "?limit=1&skip=1"],
    "/groups/{group}": [""],
    "/groups/{group}/assignment": ["?member_id={member}"],
    "/groups/{group}/cooperative": [""],
    "/groups/{group}/offsets": ["", "?topic={topic}"],
    "/groups/{group}/rebalance/stats": [""],
    "/health": [""],
    "/healthz": [""],
    "/livez": [""],
    "/logs": ["", "?limit=1&level=error"],
    "/metrics": [""],
    "/node": [""],
    "/openapi.json": [""],
    "/overview": [""],
    "/priority/stats": [""],
    "/producers": ["", "?limit=1"],
    "/readyz": ["", "?verbose=true"],
    "/rebalance/stats": [""],
    "/reliability/stats": [""],
    "/schedules": ["", "?limit=1"],
    "/schedules/{schedule}": [""],
    "/jobs": [""],
    "/jobs/{job}": [""],
    "/topics/{topic}/dlq/errors": [""],
    "/search/{search}": ["", "?after=1"],
    "/api/v1/dlq": ["", "?queue=orders&consumerGroup=workers&limit=1&offset=1"],
    "/api/v1/consumer-groups": [""],
    "/api/v1/consumer-groups/lagging": ["?minLagSeconds=0"],
    "/api/v1/consumer-groups/{group}": [""],
    "/api/v1/messages": ["?queue={topic}", "?queue={topic}&status=pending&from=2020-01-01T00:00:00Z"],
    "/api/v1/messages/{partition_id}/{transaction}": [""],
    "/api/v1/resources/namespaces": [""],
    "/api/v1/resources/overview": [""],
    "/api/v1/resources/queues": [""],
    "/api/v1/resources/queues/{queue}": [""],
    "/api/v1/resources/queues/{queue}/depth": [""],
    "/api/v1/resources/partitions": ["", "?queue={topic}"],
    "/api/v1/analytics/system-metrics": [""],
    "/api/v1/analytics/worker-metrics": [""],
    "/api/v1/resources/tasks": [""],
    "/api/v1/status": [""],
    "/api/v1/status/analytics": ["?interval=hour"],
    "/api/v1/status/buffers": [""],
    "/api/v1/status/queues": [""],
    "/api/v1/status/queues/{queue}": [""],
    "/api/v1/status/queues/{queue}/messages": [""],
    "/api/v1/system/maintenance": [""],
    "/api/v1/system/maintenance/pop": [""],
    "/api/v1/traces/by-name/{name}": [""],
    "/api/v1/traces/names": [""],
    "/api/v1/traces/{partition_id}/{transaction}": [""],
    "/stats": [""],
    "/topics": ["", "?limit=1&skip=1", "?details=true&search=o&limit=2&cursor=a"],
    "/topics/{topic}": [""],
    "/topics/{topic}/delayed": ["", "?limit=1"],
    "/topics/{topic}/delayed/{id}": ["", "?partition=0"],
    "/topics/{topic}/delayed/{partition}/{id}": [""],
    "/topics/{topic}/dlq": ["", "?group=workers&reason=rejected", "?contains=m&order=newest&limit=1"],
    "/support-bundle": [""],
    "/topics/{topic}/messages": ["?partition=0", "?partition=0&offset=3&limit=2&isolation=read_uncommitted"],
    "/topics/{topic}/partitions/{partition}/messages": ["", "?offset=100", "?from_time=2026-01-01T00:00:00Z"],
    "/topics/{topic}/partitions/{partition}/messages/{offset}/life": [""],
    "/topics/{topic}/queues": [""],
    "/topics/{topic}/queues/{group}": [""],
    "/topics/{topic}/queues/{group}/leases": ["", "?limit=1&cursor=0:0"],
    "/traces": ["", "?limit=1"],
    "/traces/search": ["?topic={topic}&status=error"],
    "/traces/stats": [""],
    "/traces/{trace}": [""],
    "/transactions": ["", "?limit=1"],
    "/transactions/stats": [""],
    "/version": [""],
}
"""Every GET route, with the queries to ask it with."""

CLOCKS = {
    "timestamp",
    "uptime",
    "latency",
    "time_remaining",
    "oldest_age",
    "lag_time",
    "enqueue_rate",
    "dequeue_rate",
    "memory",
    "disk",
    "event_loop_lag",
    "time",
    "published_per_second",
    "read_per_second",
    "open_files",
    "free_bytes",
    "maxTimeLag",
    "lagSeconds",
    "lines",
}
"""Parts of answers that tell the time or the state of the machine."""

SAMPLED = {
    "/metrics",
    "/overview",
    "/support-bundle",
    "/api/v1/status",
    "/api/v1/analytics/system-metrics",
    "/api/v1/analytics/worker-metrics",
    "/api/v1/status/analytics?interval=hour",
}
"""What they say is some seconds old, and about the requests themselves too."""

LOOKING_METHODS: dict[str, Callable[[Any, BusyBroker], Any]] = {
    "topics.list": lambda q, busy: q.topics.list(),
    "topics.describe": lambda q, busy: q.topics.describe(busy.topic),
    "topics.replicas": lambda q, busy: q.topics.replicas(busy.topic),
    "topics.compact": lambda q, busy: q.topics.compact(busy.topic, dry_run=True),
    "groups.list": lambda q, busy: q.groups.list(),
    "groups.describe": lambda q, busy: [q.groups.describe(group) for group in GROUPS],
    "groups.reset": lambda q, busy: q.groups.reset("readers", busy.topic, "earliest", dry_run=True),
    "queues.depths": lambda q, busy: q.queues.depths(busy.topic),
    "queues.depth": lambda q, busy: q.queues.depth(busy.topic, "workers"),
    "dead_letters.list": lambda q, busy: q.dead_letters.list(busy.topic),
    "dead_letters.get": lambda q, busy: q.dead_letters.get(busy.topic, "0:0"),
    "dead_letters.removed": lambda q, busy: q.dead_letters.removed(busy.topic),
    "dead_letters.redrive": lambda q, busy: q.dead_letters.redrive(busy.topic, dry_run=True),
    "dead_letters.purge": lambda q, busy: q.dead_letters.purge(busy.topic, dry_run=True),
    "delayed.list": lambda q, busy: q.delayed.list(busy.topic),
    "delayed.get": lambda q, busy: q.delayed.get(busy.topic, 0, busy.delayed[0]),
    "schedules.list": lambda q, busy: q.schedules.list(),
    "schedules.get": lambda q, busy: q.schedules.get(busy.schedule),
    "traces.get": lambda q, busy: q.traces.get(TRACE),
    "traces.list": lambda q, busy: q.traces.list(),
    "traces.search": lambda q, busy: q.traces.search(topic=busy.topic),
    "traces.stats": lambda q, busy: q.traces.stats(),
    "traces.message": lambda q, busy: q.traces.message(busy.topic, 0, 0),
    "transactions.list": lambda q, busy: q.transactions.list(),
    "transactions.describe": lambda q, busy: q.transactions.describe("tx-None"),
    "transactions.stats": lambda q, busy: q.transactions.stats(),
}
CHANGING_METHODS = {
    "topics": {"create", "alter", "add_partitions", "delete", "purge"},
    "groups": {"alter", "commit", "delete"},
    "queues": {"pause", "resume"},
    "dead_letters": set(),
    "delayed": {"cancel", "cancel_many", "reschedule", "reschedule_many"},
    "schedules": {"add", "alter", "pause", "resume", "run", "remove"},
    "traces": set(),
    "transactions": {"abort", "commit", "abort_all", "init"},
}

LOOKING_COMMANDS: dict[str, list[str]] = {
    "topic list": [],
    "topic describe": ["{topic}"],
    "topic replicas": ["{topic}"],
    "topic compact": ["{topic}", "--dry-run"],
    "group list": [],
    "group describe": ["workers"],
    "group reset": ["readers", "--topic", "{topic}", "--to", "earliest", "--dry-run"],
    "dlq list": ["{topic}"],
    "dlq show": ["{topic}", "0:0"],
    "dlq redrive": ["{topic}", "--dry-run"],
    "dlq purge": ["{topic}", "--all", "--dry-run"],
    "delayed list": ["{topic}"],
    "delayed show": ["{topic}", "0:{delayed}"],
    "schedule list": [],
    "schedule describe": ["{schedule}"],
    "trace message": ["{topic}", "0", "0"],
    "trace show": [TRACE],
    "trace list": [],
    "trace search": ["--topic", "{topic}"],
    "txn list": [],
    "txn describe": ["tx-None"],
    "consume": ["{topic}"],
    "search": ["{topic}", "value is not null"],
    "config": [],
    "doctor": [],
    "cluster nodes": [],
    "cluster reassignments": [],
    "cluster status": ["--units"],
    "top": ["--once"],
    "topic watch": ["{topic}", "-n", "1"],
}
CHANGING_COMMANDS = {
    *("serve", "produce", "work", "topic create", "topic alter", "topic delete"),
    *("group alter", "group pause", "group resume", "group delete", "delayed cancel", "delayed move", "txn abort"),
    "trace export",
    *("schedule add", "schedule alter", "schedule pause", "schedule resume", "schedule run", "schedule remove"),
    *("storage status", "storage migrate"),  # of a database, which this broker has not: tests/blackbox/postgres
    *("cluster drain", "cluster remove", "cluster rebalance", "cluster reassign"),
    "cluster etcd",  # of an etcd, which this broker has not: tests/blackbox/cluster
}


@pytest.fixture(scope="module")
def busy(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BusyBroker]:
    with BrokerProcess(tmp_path_factory.mktemp("looking") / "data") as broker:
        found = BusyBroker(broker)
        message = {"value": "traced", "headers": {"traceparent": f"00-{TRACE}-b7ad6b7169203331-01"}}
        assert broker.request("POST", "/topics", {"name": "traced"})[0] == 201
        assert broker.request("POST", "/topics/traced/messages", {"messages": [message]})[0] == 200
        yield found


def stored_bytes(data_dir: Path) -> dict[str, str]:
    """What the broker has written, without what it makes from that by itself from time to time."""
    return {
        str(path.relative_to(data_dir)): f"{path.stat().st_size} {hashlib.sha256(path.read_bytes()).hexdigest()}"
        for path in sorted(data_dir.rglob("*"))
        if path.is_file() and path.suffix not in (".index", ".snapshot")
    }


def paths(busy: BusyBroker) -> list[str]:
    """Every route with everything that there is."""
    topics = [busy.topic, f"{busy.topic}.dlq", busy.tables.topic]
    named = {
        "topic": topics,
        "group": GROUPS,
        "partition": [0],
        "offset": [0, 1, 2, 3, 1000],
        "queue": topics,
        "name": ["none"],
        "partition_id": ["1-YQ", "zz"],
        "transaction": ["00000001-0000-0000-0000-000000000008"],
        "trace": [TRACE],
        "id": busy.delayed,
        "schedule": [busy.schedule],
        "search": ["0123456789abcdef"],
        "job": ["0123456789abcdef"],
    }
    return [
        path + query.format(member=busy.member, topic=busy.topic)
        for route, queries in ROUTES.items()
        for path in filled(route, named)
        for query in queries
    ]


def shown(busy: BusyBroker) -> dict[str, Any]:
    """What the broker answers everywhere, without clocks."""
    call = HttpCaller(busy.broker.http_port)
    answers = {}
    deadline = time.monotonic() + WELL_SECONDS
    for path in paths(busy):
        status, text = call.raw("GET", path)
        while status == 503 and "/readyz" in path and time.monotonic() < deadline:  # the machine is overloaded
            status, text = call.raw("GET", path)
        assert status in (200, 307, 404, 409), (path, status, text[:500])
        answers[f"{path} (status)"] = status
        if path in ("/", "/console", "/docs"):
            answers[path] = text
        elif path not in SAMPLED:
            answers |= dict(_parts(path, json.loads(text)))
    call.close()
    return answers


def _parts(path: str, answer: Any) -> Iterator[tuple[str, Any]]:
    """Every value of an answer by its place, without clocks."""
    if isinstance(answer, list):
        answer = dict(enumerate(answer))
    if not isinstance(answer, Mapping):
        yield path, answer
        return
    for name, value in answer.items():
        if name not in CLOCKS:
            yield from _parts(f"{path} {name}", value)


def difference(before: Mapping[str, Any], after: Mapping[str, Any]) -> dict[str, Any]:
    return {
        name: (before.get(name), after.get(name))
        for name in before.keys() | after.keys()
        if not _is_same(before.get(name), after.get(name))
    }


def _is_same(before: Any, after: Any) -> bool:
    """Times that are counted back from now differ by rounding."""
    if before == after:
        return True
    try:
        return abs(datetime.fromisoformat(before) - datetime.fromisoformat(after)) < timedelta(milliseconds=100)
    except (TypeError, ValueError):
        return False


def test_every_route_is_known(busy: BusyBroker) -> None:
    _, document = busy.broker.request("GET", "/openapi.json")
    assert set(get_routes(document)) == set(ROUTES), "say here with which queries the route is asked"
    assert {path for path in LEASING if "get" in document["paths"][path]} == LEASING


def test_every_method_is_known(busy: BusyBroker) -> None:
    with quiver.connect(busy.broker.address) as q:
        for part, changing in CHANGING_METHODS.items():
            there = {name for name in dir(getattr(q, part)) if not name.startswith("_")}
            looking = {name.partition(".")[2] for name in LOOKING_METHODS if name.startswith(f"{part}.")}
            assert there == looking | changing, f"say of q.{part} which methods look"


def test_every_command_is_known() -> None:
    there = set(_commands(typer.main.get_command(app)))
    assert there == set(LOOKING_COMMANDS) | CHANGING_COMMANDS, "say which commands look"


def _commands(command: Any, prefix: str = "") -> Iterator[str]:
    """All that can be run, but not the jobs on Spark, which read and write as other clients do."""
    if not hasattr(command, "list_commands"):
        yield prefix
        return
    context = typer.Context(command)
    for name in command.list_commands(context):
        found = command.get_command(context, name)
        if name != "pipeline":
            yield from _commands(found, f"{prefix} {name}".strip())


@pytest.fixture(scope="module")
def first_bytes(busy: BusyBroker) -> dict[str, str]:
    """What was stored before anybody looked, and after the broker has written what it writes by itself."""
    found, since = stored_bytes(busy.broker.data_dir), time.monotonic()

    def is_at_rest() -> bool:
        nonlocal found, since
        now = stored_bytes(busy.broker.data_dir)
        if now != found:
            found, since = now, time.monotonic()
        return time.monotonic() - since > REST_SECONDS

    wait_until(is_at_rest, 60, "the broker writes nothing any more")
    return found


@pytest.fixture(scope="module")
def first_shown(busy: BusyBroker, first_bytes: dict[str, str]) -> dict[str, Any]:
    return shown(busy)


def test_routes_change_nothing(busy: BusyBroker, first_bytes: Any, first_shown: Any) -> None:
    call = HttpCaller(busy.broker.http_port)
    for _ in range(ROUNDS):
        for path in paths(busy):
            for prefix in ("", "/v1"):
                call.raw("GET", prefix + path)
    check_unchanged(busy, first_bytes, first_shown)


def test_methods_change_nothing(busy: BusyBroker, first_bytes: Any, first_shown: Any) -> None:
    with quiver.connect(busy.broker.address) as q:
        for _ in range(ROUNDS):
            for look in LOOKING_METHODS.values():
                look(q, busy)
            q.offsets(busy.topic)
            q.offsets(busy.topic, "-1h")
            assert len(list(q.read(busy.topic, end="latest"))) == 11
            assert len(list(q.read(busy.tables.topic, end="latest"))) == 1
    check_unchanged(busy, first_bytes, first_shown)


def test_commands_change_nothing(busy: BusyBroker, first_bytes: Any, first_shown: Any) -> None:
    cli = Cli(busy.broker.address)
    for command, arguments in LOOKING_COMMANDS.items():
        words = [word.format(topic=busy.topic, schedule=busy.schedule, delayed=busy.delayed[0]) for word in arguments]
        cli(*command.split(), *words)
    check_unchanged(busy, first_bytes, first_shown)


def check_unchanged(busy: BusyBroker, first_bytes: dict[str, str], first_shown: dict[str, Any]) -> None:
    assert not difference(first_bytes, stored_bytes(busy.broker.data_dir))
    assert not difference(first_shown, shown(busy))
    assert not difference(first_bytes, stored_bytes(busy.broker.data_dir))


def test_delivery_goes_on_as_if_nobody_had_looked(busy: BusyBroker, first_shown: Any) -> None:
    """Runs last. Who holds a message can settle it, who waits gets the next one, and nothing else."""
    queue = busy.queue
    assert queue.settle("ack", busy.leased)["action"] == "acked"
    assert values(queue.receive_all(6)) == ["m4", "m5", "m6", "m7", "k0", "k1"]
    assert queue.receive() == []
    for message in busy.in_lanes:
        assert queue.settle("ack", message)["action"] == "acked"
    assert sorted(values(busy.in_lanes + queue.receive_all(11 - len(busy.in_lanes), "lanes"))) == sorted(
        [f"m{number}" for number in range(8)] + ["k0", "k1", "k2"]
    )
    assert queue.settle("ack", busy.polled[1])["committed_offset"] == 3
    assert values(busy.poll(100)) == ["m4", "m5", "m6", "m7", "k0", "k1", "k2"]
    assert queue.call("POST", "/transactions/commit", busy.producer)["status"]
    assert values(busy.tables.receive_all(2)) == ["to commit", "to None"]
    queue.call("DELETE", f"/topics/{busy.topic}/delayed/0/{busy.delayed[0]}")
    with quiver.connect(busy.broker.address) as q, q.stream(busy.topic, group="readers") as stream:
        assert next(iter(stream)).value == b"m2"
