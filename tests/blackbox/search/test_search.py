"""Searching through the shipped program: HTTP, SDK and command line."""

import json
from collections.abc import Callable
from typing import Any

import pytest

import quiver
from blackbox.callers.new_topic import new_topic
from blackbox.processes.broker_process import BrokerProcess
from blackbox.processes.cli_process import Cli


def fill(q: quiver.Client, topic: str, count: int = 60) -> None:
    for n in range(count):
        headers = {"source": "web" if n % 2 else "app"}
        q.publish(
            topic,
            {"n": n, "total": n * 10, "sku": f"A-{n % 7}"},
            key=f"c-{n % 5}",
            headers=headers,
            partition=n % 3,
        )


@pytest.fixture
def topic(q: quiver.Client) -> str:
    name = new_topic(q, partitions=3, durability="interval")
    fill(q, name)
    return name


def begin(broker: BrokerProcess, topic: str, where: str, **more: Any) -> dict[str, Any]:
    status, found = broker.request("POST", f"/topics/{topic}/search", {"where": where, **more})
    assert status == 200, found
    return found


def end(broker: BrokerProcess, id: str) -> dict[str, Any]:
    while True:
        status, found = broker.request("GET", f"/search/{id}?wait=5s&after=0")
        assert status == 200, found
        if found["state"] != "running":
            return found


def numbers(found: dict[str, Any]) -> list[int]:
    return [json.loads(message["value"])["n"] for message in found["messages"]]


def test_http_finds_the_newest_first_in_all_partitions(shared_broker: BrokerProcess, topic: str) -> None:
    found = end(shared_broker, begin(shared_broker, topic, 'value.total > 300 and "c-1" in key')["id"])
    assert sorted(numbers(found)) == [31, 36, 41, 46, 51, 56]
    times = [message["appended_at"] for message in found["messages"]]
    assert times == sorted(times, reverse=True)
    assert (found["state"], found["matched"], found["cursor"], found["error"]) == ("done", 6, None, None)
    assert found["scanned"] == found["total"] == 60
    assert {message["headers"]["source"] for message in found["messages"]} == {"app", "web"}
    later = shared_broker.request("GET", f"/search/{found['id']}?after=4")[1]
    assert numbers(later) == numbers(found)[4:]


def test_a_cursor_goes_on_where_a_bound_stopped(shared_broker: BrokerProcess, topic: str) -> None:
    for newest_first in (True, False):
        seen: list[int] = []
        times: list[str] = []
        cursor = None
        while True:
            more = {} if cursor is None else {"cursor": cursor}
            found = end(
                shared_broker,
                begin(
                    shared_broker,
                    topic,
                    'matches(value.sku, "^A-[12]$")',
                    limit=4,
                    newest_first=newest_first,
                    **more,
                )["id"],
            )
            seen += numbers(found)
            times += [message["appended_at"] for message in found["messages"]]
            cursor = found["cursor"]
            if cursor is None:
                break
            assert found["stopped_by"] == "limit"
        assert sorted(seen) == [n for n in range(60) if n % 7 in (1, 2)]
        assert times == sorted(times, reverse=newest_first)


def test_ranges_partitions_and_positions(shared_broker: BrokerProcess, topic: str) -> None:
    found = end(shared_broker, begin(shared_broker, topic, "true", partitions=[1], to=5)["id"])
    assert [(m["partition"], m["offset"]) for m in found["messages"]] == [(1, n) for n in (4, 3, 2, 1, 0)]
    assert end(shared_broker, begin(shared_broker, topic, "true", **{"from": "latest"})["id"])["total"] == 0
    assert end(shared_broker, begin(shared_broker, topic, "true", to="-1h")["id"])["total"] == 0


@pytest.mark.parametrize(
    ("body", "status", "said"),
    [
        ({"where": "valu > 3"}, 400, "there is no 'valu'; a message has value"),
        ({}, 400, "the expression is empty"),
        ({"where": "true", "limit": 0}, 400, "limit 0"),
        ({"where": "true", "max_seconds": 0}, 400, "max_seconds"),
        ({"where": "true", "partitions": [7]}, 404, "there is no partition 7"),
        ({"where": "true", "cursor": "x"}, 400, "cursor"),
        ({"where": "true", "from": "yesterday"}, 400, "yesterday"),
        ({"where": "__import__('os').system('true')"}, 400, "there is no function"),
        ({"where": "().__class__.__bases__[0].__subclasses__()"}, 400, "there is no function"),
        ({"where": "[x for x in value]"}, 400, "not part of the language"),
        ({"where": "9 ** 9 ** 9 ** 9 > 1"}, 400, "not part of the language"),
        ({"where": "(" * 500 + "value" + ")" * 500}, 400, "too many nested parentheses"),
        ({"where": "not " * 400 + "true"}, 400, "levels"),
        ({"where": "true or " * 1_000 + "true"}, 400, "at most 2,000 are allowed"),
    ],
)
def test_what_is_wrong_is_said(
    shared_broker: BrokerProcess, topic: str, body: dict[str, Any], status: int, said: str
) -> None:
    answer = shared_broker.request("POST", f"/topics/{topic}/search", body)
    assert answer[0] == status
    assert said in answer[1]["error"]


def test_nothing_is_found_of_open_and_aborted_transactions(
    shared_broker: BrokerProcess, q: quiver.Client, topic: str
) -> None:
    aborted = q.transactional().begin()
    aborted.publish(topic, {"n": 1000}, partition=0)
    aborted.abort()
    with q.transaction() as tx:
        tx.publish(topic, {"n": 1001}, partition=0)
        assert numbers(end(shared_broker, begin(shared_broker, topic, "value.n >= 1000")["id"])) == []
    assert numbers(end(shared_broker, begin(shared_broker, topic, "value.n >= 1000")["id"])) == [1001]


def test_a_search_is_cancelled_and_keeps_what_it_found(shared_broker: BrokerProcess, topic: str) -> None:
    id = end(shared_broker, begin(shared_broker, topic, "true")["id"])["id"]
    status, found = shared_broker.request("DELETE", f"/search/{id}")
    assert (status, found["state"], found["matched"]) == (200, "done", 60)
    assert shared_broker.request("GET", "/search/nothing")[1]["code"] == "search_not_found"


def test_a_deleted_topic_and_a_restart_end_searches(start_broker: Callable[..., BrokerProcess]) -> None:
    broker = start_broker()
    with quiver.connect(broker.address) as q:
        q.topics.create("gone", partitions=3)
        fill(q, "gone", 5)
        done = end(broker, begin(broker, "gone", "true")["id"])
        q.topics.delete("gone")
        assert broker.request("GET", f"/search/{done['id']}")[1]["matched"] == 5, "it had ended before"
        assert broker.request("POST", "/topics/gone/search", {"where": "true"})[1]["code"] == "topic_not_found"
    broker.restart(kill=True)
    status, answer = broker.request("GET", f"/search/{done['id']}")
    assert (status, answer["code"]) == (404, "search_not_found")
    assert "begin it again" in answer["error"]


def test_sdk(q: quiver.Client, topic: str) -> None:
    search = q.search(topic, "value.total >= 580", partitions=[0, 1, 2])
    found = sorted(search, key=lambda message: message.offset * 3 + message.partition)
    assert [message.json()["n"] for message in found] == [58, 59]
    assert found[1].key == b"c-4"
    assert found[1].headers == {"source": b"web"}
    assert (search.progress.state, search.progress.matched, search.progress.total) == ("done", 2, 60)
    first = q.search(topic, "true", limit=1, newest_first=False, partitions=0)
    assert [message.json()["n"] for message in first] == [0]
    first = q.search(topic, "true", limit=1, newest_first=False)
    seen = [message.json()["n"] for message in first]
    rest = q.search(topic, "true", limit=10_000, newest_first=False, cursor=first.progress.cursor)
    assert sorted([*seen, *(message.json()["n"] for message in rest)]) == list(range(60))
    for _ in q.search(topic, "true"):
        break
    with pytest.raises(quiver.QuiverError, match="there is no 'x'"):
        list(q.search(topic, "x > 3"))


async def test_sdk_async(shared_broker: BrokerProcess, topic: str) -> None:
    async with quiver.connect_async(shared_broker.address) as q:
        search = q.search(topic, 'headers.source == "web" and value.n > 56', limit=2)
        assert sorted([message.json()["n"] async for message in search]) == [57, 59]
        assert search.progress.state == "done"


def test_commands(cli: Cli, topic: str) -> None:
    done = cli("search", topic, "value.total > 560", "--format", "{partition} {offset}")
    assert sorted(done.stdout.decode().split("\n")[:-1]) == ["0 19", "1 19", "2 19"]
    assert b"found 3, looked at 60 of 60" in done.stderr
    stopped = cli("search", topic, "true", "-n", "2", "--oldest-first").stderr.decode()
    assert "stopped by limit; go on with --cursor 'oldest;" in stopped
    shown = cli("consume", topic, "--where", 'value.n in [3, 30] and key == "c-3"').stdout
    assert [json.loads(line)["n"] for line in shown.splitlines()] == [3]
    assert (
        cli("consume", topic, "--where", "offset == 3 and partition == 1 and timestamp > 0").stdout.count(b"\n") == 1
    )
    wrong = cli("consume", topic, "--where", "value.total >", fails=True).stderr.decode()
    assert "where: this is not an expression" in wrong
    assert "drop --where" in cli("consume", topic, "-g", "g", "--where", "true", fails=True).stderr.decode()
