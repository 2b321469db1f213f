"""Offsets of groups over HTTP: commits and who may make them, resets, lag."""

import re
import subprocess
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from blackbox.callers.http_group import HttpGroup, values
from blackbox.processes.broker_process import BrokerProcess, wait_until


@pytest.fixture
def group(shared_broker: BrokerProcess) -> HttpGroup:
    return HttpGroup(shared_broker)


def test_committed_offsets_are_shown(group: HttpGroup) -> None:
    group.fill(5)
    member = group.join()
    assert group.committed() == {}
    assert group.commit(member, {0: 2, 3: 5}, generation=1, metadata="note") == {"status": "ok"}
    assert group.committed() == {"0": 2, "3": 5}
    assert group.get("/offsets")["offsets"] == {group.topic: {"0": 2, "3": 5}}
    assert group.get()["partitions"][0]["metadata"] == "note"
    assert group.get("/offsets?topic=no-such", status=404)["code"] == "topic_not_found"


def test_only_the_owner_commits_and_only_in_the_groups_generation(group: HttpGroup) -> None:
    group.fill(5)
    first, second = group.join(), group.join()
    group.poll(first)
    mine, theirs = group.assigned(first), group.assigned(second)
    group.commit(first, {mine[0]: 1})
    group.commit(first, {mine[0]: 2}, generation=2)
    assert group.commit(first, {mine[0]: 3}, generation=1, status=409)["code"] == "generation_mismatch"
    assert group.commit(first, {mine[0]: 3}, generation=3, status=409)["code"] == "generation_mismatch"
    assert group.commit(first, {theirs[0]: 3}, status=409)["code"] == "member_fenced"
    assert group.commit(first, {mine[0]: 3, theirs[0]: 3}, status=409)["code"] == "member_fenced"
    assert group.commit({"member_id": "nobody"}, {mine[0]: 3}, status=404)["code"] == "member_not_found"
    assert group.commit({"member_id": None}, {mine[0]: 3}, status=409)["code"] == "group_not_empty"
    assert group.committed() == {str(mine[0]): 2}


def test_commits_that_make_no_sense(group: HttpGroup) -> None:
    assert group.commit({"member_id": "nobody"}, {}, status=404)["code"] == "group_not_found"
    assert group.get("/offsets", status=404)["code"] == "group_not_found"
    member = group.join()
    assert group.commit(member, {4: 0}, status=404)["code"] == "partition_not_found"
    for offset in (-1, 1):
        assert group.commit(member, {0: offset}, status=400)["code"] == "invalid_request"
    for offsets in (None, {group.topic: {"first": 0}}, {group.topic: {"-1": 0}}, {group.topic: 3}, {"a/b": {}}):
        group.post("offsets", {"member_id": member["member_id"], "offsets": offsets}, status=400)
    body = {"member_id": member["member_id"], "offsets": {"no-such": {"0": 0}}}
    assert group.post("offsets", body, status=404)["code"] == "topic_not_found"
    assert group.committed() == {}


def test_a_tool_commits_for_a_group_without_members(group: HttpGroup) -> None:
    group.fill(5)
    group.post("leave", {"member_id": group.join()["member_id"]})
    group.commit({"member_id": None}, {1: 4})
    assert group.committed() == {"1": 4}


@pytest.mark.parametrize(
    ("target", "expected"),
    [
        ({"to": "earliest"}, 0),
        ({"to": "latest"}, 10),
        ({"to": 3}, 3),
        ({"to": "offset", "offset": 4}, 4),
        ({"offset": 99}, 10),
        ({"to": "shift", "shift": -2}, 4),
        ({"shift": 3}, 9),
        ({"shift": -99}, 0),
        ({"to": "2020-01-01T00:00:00Z"}, 0),
        ({"to": "-0s"}, 10),
        ({"to": "time", "time": "-1h"}, 0),
        ({"time": 4102444800000}, 10),
    ],
)
def test_resets(group: HttpGroup, target: dict[str, Any], expected: int) -> None:
    group.publish(10)
    member = group.join()
    group.commit(member, {0: 6})
    body = {"topic": group.topic, **target}
    assert group.post("offsets/reset", body, status=409)["code"] == "group_not_empty"
    assert group.post("offsets/reset", body | {"dry_run": True})["dry_run"] is True
    group.post("leave", {"member_id": member["member_id"]})
    planned = group.post("offsets/reset", body | {"dry_run": True})
    assert group.committed() == {"0": 6}
    done = group.post("offsets/reset", body)
    assert done == planned | {"dry_run": False}
    assert done["partitions"]["0"] == {"old": 6, "new": expected}
    assert done["partitions"]["1"] == {"old": None, "new": 0}
    assert group.committed()["0"] == expected
    again = group.join()
    assert len(values(group.poll(again))) == 10 - expected


def test_a_time_between_two_messages_is_where_a_reset_to_it_begins(group: HttpGroup) -> None:
    group.publish(3)
    after = wait_until(lambda: datetime.now(UTC), 1, "now")
    wait_until(lambda: (datetime.now(UTC) - after).total_seconds() > 0.05, 5, "the clock goes on")
    between = datetime.now(UTC).isoformat()
    wait_until(lambda: (datetime.now(UTC) - after).total_seconds() > 0.1, 5, "the clock goes on")
    group.publish(2)
    group.post("leave", {"member_id": group.join()["member_id"]})
    done = group.post("offsets/reset", {"topic": group.topic, "to": between})
    assert done["partitions"]["0"] == {"old": None, "new": 3}


@pytest.mark.parametrize(
    "fields",
    [
        {"to": None},
        {"topic": None},
        {"to": "offset"},
        {"to": "shift", "offset": 3},
        {"to": "earliest", "shift": 1},
        {"to": None, "shift": 1, "offset": 1},
        {"to": "yesterday"},
        {"to": -5},
    ],
)
def test_resets_that_make_no_sense(group: HttpGroup, fields: dict[str, Any]) -> None:
    group.post("leave", {"member_id": group.join()["member_id"]})
    body = {"topic": group.topic, "to": "earliest", **fields}
    assert group.post("offsets/reset", body, status=400)["code"] == "invalid_request"
    group.post("offsets/reset", {"topic": "no-such", "to": "earliest"}, status=404)
    group.call("POST", "/groups/no-such/offsets/reset", {"topic": group.topic, "to": "earliest"}, status=404)


def test_lag_in_messages_and_in_time(group: HttpGroup) -> None:
    group.publish(10)
    group.publish(5, partition=1)
    member = group.join()
    group.commit(member, {0: 4, 1: 5})
    shown = wait_until(lambda: (now := group.get())["lag_time"] > 0 and now, 5, "the oldest message has an age")
    assert shown["lag"] == 6
    lags = {part["partition"]: part for part in shown["partitions"]}
    assert (lags[0]["committed_offset"], lags[0]["end_offset"], lags[0]["lag"]) == (4, 10, 6)
    assert lags[0]["owner"] == member["member_id"]
    assert lags[0]["lag_time"] == shown["lag_time"]
    assert (lags[1]["lag"], lags[1]["lag_time"]) == (0, 0)
    assert (lags[2]["committed_offset"], lags[2]["lag"]) == (None, 0)
    [listed] = [one for one in group.call("GET", "/groups")["groups"] if one["id"] == group.name]
    assert listed["lag"] == 6


def test_a_group_begins_where_it_says(group: HttpGroup) -> None:
    group.publish(5, value="old")
    first = group.join(start="latest")
    group.publish(2, value="new")
    assert values(group.poll(first)) == ["new0", "new1"]
    group.post("leave", {"member_id": first["member_id"]})
    assert values(group.poll(group.join(start="earliest"))) == ["new0", "new1"]


def test_two_groups_do_not_disturb_each_other(group: HttpGroup) -> None:
    other = HttpGroup(group.broker, topic=group.topic)
    group.publish(3)
    mine, theirs = group.join(), other.join(cooperative=True)
    assert values(group.poll(mine)) == values(other.poll(theirs)) == ["v0", "v1", "v2"]
    group.commit(mine, {0: 1})
    other.commit(theirs, {0: 3})
    assert (group.committed(), other.committed()) == ({"0": 1}, {"0": 3})
    other.join(cooperative=True)
    assert group.beat(mine) == {"status": "ok", "generation": 1, "rebalance_required": False}
    assert group.commit(theirs, {0: 2}, status=404)["code"] == "member_not_found"


def test_the_commands_of_the_documents_work(broker: BrokerProcess) -> None:
    text = (Path(__file__).parents[3] / "docs" / "groups.md").read_text()
    section = text[text.index("## Over HTTP") :]
    [script] = re.findall(r"^```sh\n(.*?)^```$", section, re.MULTILINE | re.DOTALL)
    broker.request("POST", "/topics", {"name": "orders", "partitions": 2})
    broker.request("POST", "/topics/orders/messages", {"messages": [{"value": "a", "partition": 0}]})
    ended = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", script.replace("localhost:7480", broker.http)],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert '"value":"a"' in ended.stdout
