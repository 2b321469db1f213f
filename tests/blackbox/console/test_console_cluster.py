"""The cluster in the console: that of a broker that is alone, and what the page makes of responses of three nodes."""

import json
from typing import Any

from playwright.sync_api import Route, expect

from blackbox.console.console_page import ConsolePage

HEALTH = {
    "status": "degraded",
    "node": "1",
    "controller": "2",
    "nodes": 4,
    "nodes_alive": 3,
    "units": 2,
    "units_without_leader": [],
    "units_refusing": [],
    "units_behind": [1],
    "units_moving": [1],
    "partitions": 12,
    "partitions_offline": 0,
    "partitions_behind": 6,
    "problems": {},
    "warnings": {"etcd": "one member is away", "replicas": "not all replicas of workers 1 are in sync"},
}


def node(name: str, state: str, *units: int) -> dict[str, Any]:
    ids = list(units)
    return {
        "node": name,
        "state": state,
        "workers": ids,
        "leaders": ids,
        "tags": {"rack": f"rack-{name}"},
        "is_controller": name == "2",
        "host": f"10.0.0.{name}",
        "http_port": 7480,
        "version": "1.0",
    }


def unit(number: int, leader: str, isr: str, replicas: str, **more: Any) -> dict[str, Any]:
    lists = {"adding": [], "removing": [], "eligible": [], "lag_bytes": {}}
    return {
        "unit": number,
        "leader": leader,
        "epoch": 7,
        "replicas": replicas.split(),
        "isr": isr.split(),
        "min_isr": 2,
        **lists,
        **more,
    }


UNITS = [
    unit(0, "1", "1 2 3", "1 2 3"),
    unit(1, "2", "2 3", "2 3 4 1", adding=["1"], removing=["4"], lag_bytes={"1": 2048}),
]
CLUSTER = {
    "node": "1",
    "node_id": "1",
    "controller": "2",
    "nodes": [node("1", "alive", 0), node("2", "alive", 1), node("3", "draining"), node("4", "dead")],
    "workers": [
        {"worker": each["unit"], "state": "running", "restarts": 0, "partitions": 6, "replicas": each["replicas"]}
        for each in UNITS
    ],
    "units": UNITS,
}


def reassignment(number: int, state: str, done: int) -> dict[str, Any]:
    moves = [
        {"unit": 0, "state": "done", "old_replicas": ["1", "2", "4"], "new_replicas": ["1", "2", "3"]},
        {"unit": 1, "state": state, "old_replicas": ["2", "3", "4"], "new_replicas": ["2", "3", "1"]},
    ]
    return {
        "reassignment_id": number,
        "state": state,
        "progress": {
            "units": 2,
            "units_done": done,
            "partitions": 12,
            "partitions_done": done * 6,
            "percent": done * 50,
        },
        "units": [{**move, "partition_count": 6} for move in moves],
        "started_at": "2026-01-01T00:00:00Z",
        "ended_at": None if state == "running" else "2026-01-01T00:00:05Z",
    }


class Responses:
    """What three nodes would respond; keeps what was cancelled."""

    def __init__(self, console: ConsolePage) -> None:
        self.cancelled: list[str] = []
        self.listed = [reassignment(2, "running", 1), reassignment(1, "done", 2)]
        context = console.context
        context.route("**/cluster", lambda route: self._give(route, CLUSTER))
        context.route("**/cluster/health", lambda route: self._give(route, HEALTH))
        context.route("**/admin/reassignment", lambda route: self._give(route, {"reassignments": self.listed}))
        context.route("**/admin/reassignment/2", self._one)

    def _give(self, route: Route, document: Any) -> None:
        route.fulfill(status=200, content_type="application/json", body=json.dumps(document))

    def _one(self, route: Route) -> None:
        if route.request.method == "DELETE":
            self.cancelled.append(route.request.url)
            self.listed[0] = reassignment(2, "cancelled", 1)
        self._give(route, self.listed[0])


def test_a_broker_that_is_alone_is_the_only_node(console: ConsolePage) -> None:
    console.topic("alone", "1", partitions=3)
    console.open("")
    console.press("g", "c")
    expect(console.title).to_have_text("Cluster")
    main = console.tab.locator("main")
    expect(main).to_contain_text("The only node is there, and the only unit has a leader and all of its replicas.")
    nodes = console.rows("section:has-text('Nodes')")
    expect(nodes).to_have_count(1)
    expect(nodes).to_contain_text("alive")
    expect(nodes).to_contain_text("controller")
    units = console.rows("section:has-text('Units')")
    expect(units).to_have_count(1)
    expect(units).to_contain_text("running")
    expect(main).not_to_contain_text("Reassignments")
    expect(main.get_by_role("button")).to_have_count(0)
    expect(main).to_contain_text("draining, rebalancing and reassigning are for clusters of several nodes")
    expect(console.commands.first).to_have_text("quiver cluster status")


def test_nodes_and_units_say_what_is_missing_and_what_moves(console: ConsolePage) -> None:
    Responses(console)
    console.open("cluster")
    main = console.tab.locator("main")
    expect(main).to_contain_text(
        "1 of 4 nodes is dead; unit 1 has replicas that are not in sync; unit 1 is being reassigned."
    )
    expect(main.locator(".banner")).to_have_text("etcd: one member is away")
    nodes = console.rows("section:has-text('Nodes')")
    expect(nodes).to_have_count(4)
    expect(nodes.nth(2)).to_contain_text("draining")
    expect(nodes.nth(3)).to_contain_text("dead")
    expect(nodes.nth(3)).to_contain_text("rack-4")
    units = console.rows("section:has-text('Units')")
    expect(units.nth(0)).to_contain_text("1, 2, 3")
    expect(units.nth(1)).to_contain_text("adding 1 · removing 4 · 1 lacks 2 KiB")
    for width in (1440, 800):
        console.tab.set_viewport_size({"width": width, "height": 900})
        assert console.tab.evaluate("document.documentElement.scrollWidth <= innerWidth"), width


def test_a_reassignment_is_followed_and_cancelled(console: ConsolePage) -> None:
    responses = Responses(console)
    console.open("cluster")
    moves = console.rows("section:has-text('Reassignments')")
    expect(moves).to_have_count(2)
    expect(moves.first).to_contain_text("50 %")
    expect(moves.first).to_contain_text("unit 1: 2, 3, 4 → 2, 3, 1")
    expect(moves.last).to_contain_text("done")
    console.button("Cancel").click()
    expect(console.dialog.locator("code").first).to_have_text("quiver cluster reassignments 2 --cancel")
    expect(console.dialog.locator(".preview")).to_contain_text("1 unit with 6 partitions would go back")
    assert responses.cancelled == []
    console.dialog.get_by_role("button", name="Cancel it").click()
    expect(moves.first).to_contain_text("cancelled")
    expect(console.button("Cancel")).to_have_count(0)
    assert len(responses.cancelled) == 1
