"""Members of stream groups over HTTP: both protocols, sharing, taking over, errors, restarts."""

from collections.abc import Callable
from typing import Any

import pytest

from blackbox.callers.http_group import HttpGroup, values
from blackbox.processes.broker_process import BrokerProcess, wait_until


@pytest.fixture
def group(shared_broker: BrokerProcess) -> HttpGroup:
    return HttpGroup(shared_broker)


def test_a_lone_member_has_its_partitions_with_the_answer_to_its_join(group: HttpGroup) -> None:
    joined = group.join(client_id="web 1")
    assert joined["member_id"].startswith("web 1-")
    int(joined["member_id"].removeprefix("web 1-"), 16)
    assert joined["generation"] == 1
    assert (joined["leader_id"], joined["leader"]) == (joined["member_id"], True)
    assert joined["partitions"] == [{"topic": group.topic, "partition": number} for number in range(4)]
    assert joined["assigned_partitions"] == [f"{group.topic}-{number}" for number in range(4)]
    assert joined["members"] == [joined["member_id"]]
    beat = group.beat(joined, generation=1)
    assert beat == {"status": "ok", "generation": 1, "rebalance_required": False}


def test_eager_members_let_go_of_everything_and_join_again(group: HttpGroup) -> None:
    first = group.join()
    second = group.join()
    assert second["partitions"] == []
    assert (second["leader"], second["leader_id"]) == (False, first["member_id"])
    assert sorted(second["members"]) == sorted([first["member_id"], second["member_id"]])
    assert group.beat(first, generation=1) == {"status": "ok", "generation": 2, "rebalance_required": True}
    again = group.join(member_id=first["member_id"])
    assert (again["generation"], len(again["partitions"])) == (2, 2)
    assert group.beat(first)["rebalance_required"] is False
    assert group.beat(second)["rebalance_required"] is True
    theirs = group.join(member_id=second["member_id"])["partitions"]
    assert group.beat(second)["rebalance_required"] is False
    everything = sorted(part["partition"] for part in again["partitions"] + theirs)
    assert everything == [0, 1, 2, 3]


def test_what_a_poll_or_an_assignment_tells_needs_no_join(group: HttpGroup) -> None:
    first, second = group.join(), group.join()
    group.poll(first)
    assert group.beat(first)["rebalance_required"] is False
    assert group.beat(second)["rebalance_required"] is True
    mine, theirs = group.assigned(first), group.assigned(second)
    assert group.beat(second)["rebalance_required"] is False
    assert sorted(mine + theirs) == [0, 1, 2, 3]
    assert len(mine) == len(theirs) == 2


def test_a_member_that_comes_back_says_only_who_it_is(group: HttpGroup) -> None:
    first = group.join()
    again = group.post("join", {"member_id": first["member_id"]})
    assert again["partitions"] == first["partitions"]
    assert again["generation"] == first["generation"]


def test_a_lone_eager_member_that_changes_its_topics_has_them_at_once(group: HttpGroup) -> None:
    first = group.join()
    other = HttpGroup(group.broker, partitions=2)
    again = group.join(member_id=first["member_id"], topics=[other.topic])
    assert again["assigned_partitions"] == [f"{other.topic}-0", f"{other.topic}-1"]
    assert again["generation"] == 2


def test_cooperative_members_let_go_of_what_they_are_asked_for(group: HttpGroup) -> None:
    first = group.join(cooperative=True)
    assert (first["state"], first["rebalance_required"]) == ("complete", False)
    assert len(first["partitions_assigned"]) == len(first["partitions"]) == 4
    assert first["revocation_deadline"] is None
    second = group.join(cooperative=True)
    assert (second["state"], second["rebalance_required"]) == ("pending_assign", True)
    assert second["partitions_assigned"] == []

    asked = group.beat(first, cooperative=True, generation=1)
    assert (asked["generation"], asked["state"], asked["rebalance_required"]) == (2, "pending_revoke", True)
    assert len(asked["partitions_to_revoke"]) == len(asked["partitions_assigned"]) == 2
    assert asked["revocation_deadline"].endswith("Z")
    shown = group.get("/cooperative")
    assert shown["state"] == "rebalancing"
    assert {len(parts) for parts in shown["member_assignments"].values()} == {0, 2}

    coming_back = group.join(cooperative=True, member_id=first["member_id"])
    assert coming_back["partitions_to_revoke"] == asked["partitions_to_revoke"]
    done = group.post(
        "revoke",
        {
            "member_id": first["member_id"],
            "generation": 2,
            "revoked_partitions": asked["partitions_to_revoke"] + [{"topic": "no-such", "partition": 0}],
        },
    )
    assert (done["state"], done["rebalance_required"], done["partitions_to_revoke"]) == ("complete", False, [])
    assert done["partitions_assigned"] == asked["partitions_assigned"]
    received = group.beat(second, cooperative=True)
    assert (received["state"], received["rebalance_required"]) == ("complete", True)
    assert received["partitions_assigned"] == asked["partitions_to_revoke"]
    assert group.beat(second, cooperative=True)["rebalance_required"] is False

    left = group.post("leave/cooperative", {"member_id": first["member_id"]})
    assert (left["status"], left["state"], left["partitions_assigned"]) == ("ok", "none", [])
    assert len(group.beat(second, cooperative=True)["partitions_assigned"]) == 4


def test_a_group_shows_itself(group: HttpGroup) -> None:
    member = group.join(session_timeout="10s")
    shown = group.get()
    assert (shown["id"], shown["group_id"], shown["state"], shown["protocol"]) == (
        group.name,
        group.name,
        "stable",
        "eager",
    )
    [one] = shown["members"]
    assert one["id"] == one["member_id"] == member["member_id"]
    assert one["client_id"] == "app"
    assert one["assigned_partitions"] == member["assigned_partitions"]
    assert one["last_heartbeat"].endswith("Z")
    assert one["joined_at"].endswith("Z")
    [listed] = [one for one in group.call("GET", "/groups")["groups"] if one["id"] == group.name]
    assert listed == {
        "id": group.name,
        "kind": "stream",
        "state": "stable",
        "members": 1,
        "generation": 1,
        "topics": [group.topic],
        "lag": 0,
        "leased": 0,
        "retrying": 0,
    }
    page = group.call("GET", "/v1/groups?limit=1")
    assert (len(page["groups"]), page.get("next_skip", 1)) == (1, 1)


def test_settings_and_deletion(group: HttpGroup) -> None:
    group.call("DELETE", f"/groups/{group.name}", status=404)
    member = group.join()
    changed = group.call("PATCH", f"/groups/{group.name}", {"offsets_retention": "30d", "colour": "red"})
    assert changed["config"] == {"offsets_retention": "30d"}
    group.call("PATCH", f"/groups/{group.name}", {"offsets_retention": "soon"}, status=400)
    assert group.call("DELETE", f"/groups/{group.name}", status=409)["code"] == "group_not_empty"
    assert group.post("leave", {"member_id": member["member_id"]}) == {"status": "ok"}
    assert group.get()["state"] == "empty"
    assert group.call("DELETE", f"/groups/{group.name}") == {"name": group.name, "deleted": True}
    assert group.get(status=404)["code"] == "group_not_found"


@pytest.mark.parametrize("protocol", ["join", "join/cooperative"])
def test_who_stays_takes_over_from_who_leaves(group: HttpGroup, protocol: str) -> None:
    group.fill(3)
    first = group.post(protocol, {"client_id": "a", "topics": [group.topic]})
    second = group.post(protocol, {"client_id": "b", "topics": [group.topic]})
    got = values(group.poll(first))
    theirs = values(group.poll(second))
    assert len(got) == len(theirs) == 6
    assert sorted(got + theirs) == sorted(f"{partition}:{n}" for partition in range(4) for n in range(3))
    for member, part in ((first, 0), (second, 1)):
        mine = group.assigned(member)
        group.commit(member, dict.fromkeys(mine, 2 + part))
    group.post("leave", {"member_id": first["member_id"]})
    taken_over = values(group.poll(second, timeout="20s"))
    # The first member had committed all but the last message of each of its partitions.
    assert sorted(taken_over) == sorted({value for value in got if value.endswith(":2")})
    assert group.poll(first, status=404)["code"] == "member_not_found"


def test_a_silent_member_is_put_out_and_a_polling_one_takes_over(group: HttpGroup) -> None:
    group.fill(1)
    first = group.join()
    silent = group.join(session_timeout="200ms")
    seen = values(group.poll(first))
    while len(seen) < 4:
        seen += values(group.poll(first, timeout="20s"))
    assert sorted(seen) == ["0:0", "1:0", "2:0", "3:0"]
    for answer in (group.beat(silent, status=409), group.join(member_id=silent["member_id"], status=409)):
        assert answer["code"] == "member_fenced"
    assert group.commit(silent, {0: 1}, status=409)["code"] == "member_fenced"
    assert len(group.assigned(first)) == 4


def test_waiting_in_a_poll_counts_as_a_sign_of_life(group: HttpGroup) -> None:
    member = group.join(session_timeout="1500ms")
    assert group.poll(member, timeout="4s")["messages"] == {}
    assert group.beat(member)["generation"] == 1


def test_an_instance_that_returns_gets_its_partitions_back(group: HttpGroup) -> None:
    first = group.join(instance_id="box-1")
    again = group.join(instance_id="box-1")
    assert again["partitions"] == first["partitions"]
    assert again["generation"] == first["generation"]
    assert group.beat(first, status=409)["code"] == "member_fenced"


def test_patterns_and_new_partitions_reach_the_group(group: HttpGroup) -> None:
    member = group.join(topics=None, pattern=f"{group.topic}.*", cooperative=True)
    assert len(member["partitions"]) == 4
    group.call("POST", f"/admin/topics/{group.topic}/partitions", {"count": 5})
    group.call("POST", "/topics", {"name": f"{group.topic}.eu", "partitions": 1}, status=201)
    assert group.beat(member)["rebalance_required"] is True
    assert f"{group.topic}.eu-0" in group.poll(member)["assigned_partitions"]
    assert group.beat(member) == {"status": "ok", "generation": 3, "rebalance_required": False}


def test_what_members_cannot_do(group: HttpGroup) -> None:
    stranger = {"member_id": "nobody"}
    for path in ("heartbeat", "heartbeat/cooperative", "leave", "leave/cooperative"):
        assert group.post(path, stranger, status=404)["code"] == "group_not_found"
    group.get("/poll?member_id=nobody", status=404)
    assert group.join(member_id="nobody", status=404)["code"] == "group_not_found"
    member = group.join()
    for path in ("heartbeat", "heartbeat/cooperative", "leave", "leave/cooperative", "join"):
        assert group.post(path, stranger, status=404)["code"] == "member_not_found"
        if path != "join":
            assert group.post(path, {}, status=400)["code"] == "invalid_request"
    assert group.post("revoke", stranger | {"revoked_partitions": []}, status=404)["code"] == "member_not_found"
    group.post("revoke", {"member_id": member["member_id"]}, status=400)
    group.get("/assignment", status=400)
    group.get("/assignment?member_id=nobody", status=404)
    assert group.beat(member, generation=2, status=409)["code"] == "generation_mismatch"
    assert group.join(cooperative=True, status=409)["code"] == "group_protocol_mismatch"
    assert group.join(assignor="range", status=409)["code"] == "group_protocol_mismatch"


@pytest.mark.parametrize(
    "fields",
    [
        {"client_id": None},
        {"client_id": ""},
        {"topics": None},
        {"topics": []},
        {"topics": ["no/name"]},
        {"pattern": "("},
        {"pattern": "a" * 1001},
        {"session_timeout": "0s"},
        {"session_timeout": "soon"},
        {"assignor": "fair"},
        {"start": "somewhere"},
    ],
)
def test_a_join_that_makes_no_sense_leaves_no_group(group: HttpGroup, fields: dict[str, Any]) -> None:
    group.join(**fields, status=400)
    group.join(topics=["no-such-topic"], status=404)
    group.get(status=404)
    assert group.call("POST", "/groups/no%2Fname/join", {"client_id": "a"}, status=400)["code"] == "invalid_name"


def test_assignors(group: HttpGroup) -> None:
    first, second = group.join(assignor="range"), group.join(assignor="range")
    group.poll(first)
    assert sorted([group.assigned(first), group.assigned(second)]) == [[0, 1], [2, 3]]


def test_rebalances_are_counted(group: HttpGroup) -> None:
    group.get("/rebalance/stats", status=404)
    first, _ = group.join(), group.join()
    assert group.get("/rebalance/stats")["successful_rebalances"] == 1
    group.poll(first)
    stats = group.get("/rebalance/stats")
    counted = {name: value for name, value in stats.items() if not name.endswith("duration")}
    assert counted == {
        "total_rebalances": 2,
        "successful_rebalances": 2,
        "failed_rebalances": 0,
        "partitions_moved": 8,
        "revocation_timeouts": 0,
    }
    assert stats["last_duration"] >= stats["avg_duration"] >= 0
    together = group.call("GET", "/rebalance/stats")
    assert together["groups"][group.name] == stats
    assert together["total_rebalances"] >= 2


@pytest.mark.parametrize("cooperative", [False, True])
def test_members_generations_and_offsets_outlive_a_killed_broker(
    start_broker: Callable[..., BrokerProcess], cooperative: bool
) -> None:
    broker = start_broker()
    group = HttpGroup(broker)
    group.fill(5)
    first = group.join(cooperative=cooperative)
    second = group.join(cooperative=cooperative)
    group.call("PATCH", f"/groups/{group.name}", {"visibility": "1s"})
    assert len(values(group.poll(first))) == 10
    mine, theirs = group.assigned(first), group.assigned(second)
    group.commit(first, dict.fromkeys(mine, 3), generation=2)
    broker.restart(kill=True)
    assert group.beat(first, generation=2)["generation"] == 2
    assert (group.assigned(first), group.assigned(second)) == (mine, theirs)
    assert group.committed() == {str(number): 3 for number in mine}
    # What was read and not committed comes again after its visibility time.
    again: set[str] = set()
    while len(again) < 4:
        again.update(values(group.poll(first, timeout="20s")))
    assert again == {f"{number}:{n}" for number in mine for n in (3, 4)}
    assert len(values(group.poll(second))) == 10
    third = group.join(cooperative=cooperative)
    assert third["generation"] == 3
    for member in (first, second):
        group.poll(member)
    wait_until(lambda: group.get()["state"] == "stable", 10, "the group comes to rest")
    owned = [number for member in (first, second, third) for number in group.assigned(member)]
    assert sorted(owned) == [0, 1, 2, 3]
