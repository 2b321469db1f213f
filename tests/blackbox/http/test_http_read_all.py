"""GET messages without a partition reads all of them; and where `GET /` leads."""

import random
from typing import Any

import httpx
import pytest

from blackbox.processes.broker_process import BrokerProcess


@pytest.fixture
def topic(shared_broker: BrokerProcess, request: pytest.FixtureRequest) -> str:
    name = "".join(each if each.isalnum() else "-" for each in request.node.name)
    assert shared_broker.request("POST", "/topics", {"name": name, "partitions": 4})[0] == 201
    return name


def publish(broker: BrokerProcess, topic: str, *messages: tuple[int, str]) -> None:
    body = {"messages": [{"value": value, "partition": partition} for partition, value in messages]}
    status, answer = broker.request("POST", f"/topics/{topic}/messages", body)
    assert status == 200
    assert not any("error" in result for result in answer["results"])


def pages(broker: BrokerProcess, topic: str, query: str = "") -> list[list[dict[str, Any]]]:
    """Until one is empty."""
    found: list[list[dict[str, Any]]] = []
    after = ""
    while True:
        status, page = broker.request("GET", f"/topics/{topic}/messages?limit=7{query}{after}")
        assert status == 200, page
        assert "next_offset" not in page, "there are several partitions"
        if not page["messages"]:
            return found
        found.append(page["messages"])
        after = f"&after={page['next']}"


def test_pages_of_all_partitions_have_every_message_once_in_the_order_of_arrival(
    shared_broker: BrokerProcess, topic: str
) -> None:
    rng = random.Random(7)
    for number in range(20):
        publish(shared_broker, topic, *((rng.choice([0, 1, 3]), f"{number}.{place}") for place in range(5)))
    found = pages(shared_broker, topic)
    assert [len(page) for page in found[:-1]] == [7] * (len(found) - 1)
    messages = [message for page in found for message in page]
    assert sorted(message["value"] for message in messages) == sorted(
        f"{number}.{place}" for number in range(20) for place in range(5)
    )
    assert [message["appended_at"] for message in messages] == sorted(message["appended_at"] for message in messages)
    for partition in range(4):
        offsets = [message["offset"] for message in messages if message["partition"] == partition]
        assert offsets == list(range(len(offsets)))


def test_a_page_at_the_end_is_empty_and_goes_on_with_what_comes_later(
    shared_broker: BrokerProcess, topic: str
) -> None:
    publish(shared_broker, topic, (0, "a"), (2, "b"))
    status, page = shared_broker.request("GET", f"/topics/{topic}/messages")
    assert (status, len(page["messages"])) == (200, 2)
    again = shared_broker.request("GET", f"/topics/{topic}/messages?after={page['next']}")[1]
    assert (again["messages"], again["next"]) == ([], page["next"])
    publish(shared_broker, topic, (3, "c"))
    assert shared_broker.request("POST", f"/admin/topics/{topic}/partitions", {"count": 5})[0] == 200
    publish(shared_broker, topic, (4, "d"))
    later = shared_broker.request("GET", f"/topics/{topic}/messages?after={page['next']}")[1]
    assert [message["value"] for message in later["messages"]] == ["c", "d"]


def test_one_partition_is_read_as_before(shared_broker: BrokerProcess, topic: str) -> None:
    publish(shared_broker, topic, (1, "a"), (1, "b"))
    page = shared_broker.request("GET", f"/topics/{topic}/messages?partition=1&offset=1")[1]
    assert ([message["value"] for message in page["messages"]], page["next_offset"]) == (["b"], 2)
    shared_broker.request("POST", "/topics", {"name": f"{topic}.single", "partitions": 1})
    publish(shared_broker, f"{topic}.single", (0, "x"), (0, "y"))
    page = shared_broker.request("GET", f"/topics/{topic}.single/messages?offset=1")[1]
    assert ([message["value"] for message in page["messages"]], page["next_offset"], page["next"]) == (["y"], 2, "2")


@pytest.mark.parametrize(
    "query", ["offset=1", "after=x", "after=1.2.3.4.5", "after=1..2", "partition=0&after=1", "after="]
)
def test_positions_that_do_not_fit_are_refused(shared_broker: BrokerProcess, topic: str, query: str) -> None:
    status, answer = shared_broker.request("GET", f"/topics/{topic}/messages?{query}")
    assert (status, answer["code"]) == (400, "invalid_request")


def test_large_pages_of_all_partitions_come_whole(shared_broker: BrokerProcess, topic: str) -> None:
    for number in range(8):
        publish(shared_broker, topic, *((number % 4, "x" * 100_000) for _ in range(4)))
    page = shared_broker.request("GET", f"/topics/{topic}/messages")[1]
    assert [len(message["value"]) for message in page["messages"]] == [100_000] * 32
    assert page["next"] == "8.8.8.8"


def test_the_root_leads_to_the_console(shared_broker: BrokerProcess) -> None:
    answer = httpx.get(shared_broker.http + "/", follow_redirects=True)
    assert (answer.status_code, answer.url.path) == (200, "/console")
