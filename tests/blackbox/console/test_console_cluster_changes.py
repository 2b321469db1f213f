"""What operators do to a cluster from its page in the console: three real nodes that keep everything twice."""

import os
import re
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Locator, expect

from blackbox.cluster.replicated_nodes import SECONDS, Nodes
from blackbox.console.console_page import ConsolePage
from blackbox.processes.broker_process import BrokerProcess, wait_until
from etcd_cluster import program, running_etcd

pytestmark = pytest.mark.skipif(program() is None, reason="etcd is not installed (scripts/system-packages gets it)")

NODES, UNITS, REASSIGNMENTS = (f"section:has(h2:text-is('{name}'))" for name in ("Nodes", "Units", "Reassignments"))
PATIENCE = SECONDS * 1000
LARGE = {"messages": [{"value": "x" * 100_000, "partition": 0}]}
EACH_TWICE = ("--replication-factor", "2", "--min-isr", "1")


@pytest.fixture(scope="module")
def nodes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Nodes]:
    started: list[BrokerProcess] = []

    def start(*args: str, data_dir: Path, wait: bool) -> BrokerProcess:
        started.append(BrokerProcess(data_dir, *args))
        return started[-1].start(wait=wait)

    with running_etcd() as etcd:
        try:
            directory = tmp_path_factory.mktemp("nodes")
            nodes = Nodes("console", etcd, directory, start, dict.fromkeys((1, 2, 3), EACH_TWICE))
            assert nodes.nodes[1].request("POST", "/cluster/rebalance")[0] == 200, "it began with two of them"
            await_no_moves(nodes)
            yield nodes
        finally:
            for process in started:
                process.close()


@pytest.fixture
def page(browser: Browser, nodes: Nodes) -> Iterator[ConsolePage]:
    """The page Cluster of node 1, with all replicas in sync."""
    nodes.await_all_in_sync(1)
    context: Any = browser.new_context(viewport={"width": 1440, "height": 900})
    page = ConsolePage(context, nodes.nodes[1])
    yield page.open("cluster")
    context.close()
    assert page.elsewhere == []
    assert page.problems == []


def row(page: ConsolePage, within: str, first: str) -> Locator:
    """The row of a table by its first cell."""
    cell = page.tab.locator("td:first-child", has_text=re.compile(f"^{first}$"))
    return page.tab.locator(f"{within} tbody tr").filter(has=cell)


def confirm(page: ConsolePage, action: str) -> None:
    page.dialog.get_by_role("button", name=action, exact=True).click()
    expect(page.dialog).to_have_count(0)


def await_no_moves(nodes: Nodes) -> None:
    def is_settled() -> bool:
        units = nodes.status(1)["units"]
        return not any(unit["adding"] or unit["removing"] for unit in units)

    wait_until(is_settled, SECONDS, "nothing moves any more")


def leads(nodes: Nodes, node: str) -> list[int]:
    return next(each["leaders"] for each in nodes.status(1)["nodes"] if each["node"] == node)


def stored_by(nodes: Nodes, node: str) -> list[Any]:
    return [unit for unit in nodes.status(1)["units"] if node in unit["replicas"]]


def test_a_node_is_drained_and_leads_again(page: ConsolePage, nodes: Nodes) -> None:
    wait_until(lambda: leads(nodes, "2"), SECONDS, "node 2 leads something")
    shown = ", ".join(map(str, leads(nodes, "2")))
    page.button("Drain node 2").click()
    expect(page.dialog.locator(".preview")).to_contain_text(f"{shown}.")
    expect(page.dialog.locator(".preview")).to_contain_text("Node 2 would get nothing to lead")
    expect(page.dialog.locator("code").first).to_have_text("quiver cluster drain 2")
    page.dialog.get_by_role("button", name="Cancel").click()
    expect(page.dialog).to_have_count(0)
    assert nodes.status(1)["nodes"][1]["state"] == "alive", "nothing was done"
    page.button("Drain node 2").click()
    confirm(page, "Drain it")
    expect(row(page, NODES, "2")).to_contain_text("draining", timeout=PATIENCE)
    wait_until(lambda: not leads(nodes, "2"), SECONDS, "others lead what node 2 led")
    page.button("End drain node 2").click()
    expect(page.dialog.locator("code").first).to_have_text("quiver cluster drain 2 --end")
    confirm(page, "End the drain")
    expect(row(page, NODES, "2")).to_contain_text("alive", timeout=PATIENCE)
    wait_until(lambda: leads(nodes, "2"), SECONDS, "node 2 leads again")


def test_a_partition_is_reassigned_limited_and_cancelled(page: ConsolePage, nodes: Nodes) -> None:
    page.topic("orders", partitions=6)
    for _ in range(10):  # each is a frame of its own: frames are sent whole, whatever the limit
        assert page.broker.request("POST", "/topics/orders/messages", LARGE)[0] == 200
    partition = page.broker.request("GET", "/cluster/partitions?topic=orders")[1]["partitions"][0]
    unit, old = partition["unit"], partition["replicas"]
    [new] = {"1", "2", "3"} - set(old)
    target = [old[0], new]
    begin_with(page, target, limit="0.001")
    expect(page.dialog.locator(".preview")).to_contain_text(f"Unit {unit}: {', '.join(old)} → {', '.join(target)}")
    expect(page.dialog.locator(".preview")).to_contain_text(
        f"{new} would get a copy, then {old[1]} would drop theirs"
    )
    command = f"quiver cluster reassign orders:0 {','.join(target)} --throttle 1049"
    expect(page.dialog.locator("code").first).to_have_text(command)
    assert page.broker.request("GET", "/admin/reassignment")[1] == {"reassignments": []}, "nothing was done"
    confirm(page, "Begin")
    moves = page.rows(REASSIGNMENTS)
    expect(moves.first).to_contain_text("running", timeout=PATIENCE)
    expect(moves.first).to_contain_text("1.02 KiB/s")
    expect(row(page, UNITS, str(unit))).to_contain_text(f"adding {new}")
    # another limit, which is still too low for it to end
    page.button("Limit").click()
    page.dialog.get_by_label("Throttle").fill("0.002")
    page.dialog.get_by_role("button", name="Continue").click()
    expect(page.dialog.locator(".preview")).to_contain_text(f"New replicas of unit {unit} would get at most 2.05 KiB")
    confirm(page, "Change the limit")
    expect(moves.first).to_contain_text("2.05 KiB/s", timeout=PATIENCE)
    expect(moves).to_have_count(1)
    page.button("Cancel", exact=True).click()
    expect(page.dialog.locator(".preview")).to_contain_text("1 unit with 1 partition would go back")
    confirm(page, "Cancel it")
    expect(moves.first).to_contain_text("cancelled", timeout=PATIENCE)
    wait_until(lambda: nodes.status(1)["units"][unit]["replicas"] == old, SECONDS, "it is back")


def begin_with(page: ConsolePage, target: list[str], limit: str) -> None:
    """As far as the dry run, for partition 0 of the topic."""
    page.button("Reassign a partition").click()
    page.dialog.get_by_label("Topic").fill("orders")
    page.dialog.get_by_role("button", name="Continue").click()
    page.dialog.get_by_label("Preferred leader").select_option(target[1])
    page.dialog.get_by_label("Replica 2").select_option(target[1])
    page.dialog.get_by_role("button", name="Look at the moves").click()
    expect(page.dialog.get_by_role("alert")).to_contain_text("a node of its own")
    page.dialog.get_by_label("Preferred leader").select_option(target[0])
    page.dialog.get_by_label("Throttle").fill(limit)
    page.dialog.get_by_role("button", name="Look at the moves").click()


def test_units_are_reassigned_and_spread_again(page: ConsolePage, nodes: Nodes) -> None:
    page.button("Rebalance").click()
    expect(page.dialog.locator(".preview")).to_contain_text("Nothing would move")
    page.dialog.get_by_role("button", name="Cancel").click()
    stored = stored_by(nodes, "3")
    for unit in stored[:2]:
        [other] = {"1", "2"} - set(unit["replicas"])
        page.button(f"Reassign unit {unit['unit']}").click()
        page.dialog.get_by_label("Preferred leader").select_option("1")
        page.dialog.get_by_label("Replica 2").select_option("2")
        page.dialog.get_by_role("button", name="Look at the moves").click()
        expect(page.dialog.locator(".preview")).to_contain_text(f"{other} would get a copy")
        confirm(page, "Begin")
        number = unit["unit"]
        wait_until(lambda n=number: nodes.status(1)["units"][n]["isr"] == ["1", "2"], SECONDS, "it is there")  # type: ignore[misc]
    page.button("Rebalance").click()
    expect(page.dialog.locator(".preview li").first).to_contain_text("to node 3")
    confirm(page, "Move them")
    await_no_moves(nodes)
    assert len(stored_by(nodes, "3")) == len(stored)


def test_a_page_whose_node_is_stopped_says_so(page: ConsolePage, nodes: Nodes) -> None:
    main, node = page.tab.locator("main"), nodes.nodes[1]
    os.kill(node.pid, signal.SIGSTOP)
    try:
        expect(main.get_by_role("alert")).to_contain_text("This node does not respond", timeout=PATIENCE)
        expect(main.get_by_role("alert")).to_contain_text("ago.")
        expect(page.rows(NODES)).to_have_count(3)
    finally:
        os.kill(node.pid, signal.SIGCONT)
    expect(main.get_by_role("alert")).to_have_count(0, timeout=PATIENCE)


def test_a_dead_node_is_removed(page: ConsolePage, nodes: Nodes) -> None:
    stored = stored_by(nodes, "3")
    nodes.nodes[3].kill()
    page.tab.locator("main").get_by_role("button", name="Remove node 3").click(timeout=PATIENCE)
    expect(page.dialog.locator(".preview li")).to_have_count(len(stored))
    remove = page.dialog.get_by_role("button", name="Remove it")
    expect(remove).to_be_disabled()
    page.dialog.get_by_label("Type 3").fill("3")
    confirm(page, "Remove it")
    expect(row(page, NODES, "3")).to_have_count(0, timeout=PATIENCE)
    await_no_moves(nodes)
    assert not stored_by(nodes, "3")
