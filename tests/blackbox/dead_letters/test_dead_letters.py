"""Dead letters through the shipped broker: what dies, what the dead letter says, looking for it."""

import time

from blackbox.callers.failing_work import FailingWork
from blackbox.processes.broker_process import BrokerProcess


def test_a_rejected_message_becomes_a_letter_that_tells_all(shared_broker: BrokerProcess) -> None:
    work = FailingWork(shared_broker, "tells", partitions=2)
    [place] = work.publish(
        "hello", key="customer-7", headers={"source": "web"}, priority="high", timestamp="2024-05-06T07:08:09.123Z"
    )
    [message] = work.receive(1)
    [result] = work.settle("reject", [message], reason="not an address")
    assert result["dlq_topic"] == "tells.dlq"
    [dead_letter] = work.wait_for_dead_letters(1)
    assert dead_letter["id"] == f"{place['partition']}:0"
    assert (dead_letter["partition"], dead_letter["offset"]) == (place["partition"], 0)
    assert (dead_letter["key"], dead_letter["value"], dead_letter["headers"]) == (
        "customer-7",
        "hello",
        {"source": "web"},
    )
    assert (dead_letter["priority"], dead_letter["timestamp"]) == ("high", "2024-05-06T07:08:09.123Z")
    assert (dead_letter["reason"], dead_letter["last_error"], dead_letter["attempts"]) == (
        "rejected",
        "not an address",
        1,
    )
    original = dead_letter["original"]
    assert (original["topic"], original["partition"], original["offset"]) == ("tells", place["partition"], 0)
    assert (original["timestamp"], original["group"]) == ("2024-05-06T07:08:09.123Z", "workers")
    assert original["first_delivered"] == message["first_delivered"]
    assert original["appended_at"] == message["appended_at"] <= dead_letter["died_at"]
    assert work.ask("GET", "/topics/tells.dlq")["partitions"] == 2


def test_the_letter_is_a_message_of_the_dead_letter_topic(shared_broker: BrokerProcess) -> None:
    work = FailingWork(shared_broker, "plain", partitions=1)
    work.kill_off("hello", key="k", headers={"source": "web"})
    work.wait_for_dead_letters(1)
    [message] = work.stored("plain.dlq")
    assert (message["key"], message["value"]) == ("k", "hello")
    headers = message["headers"]
    assert headers.pop("source") == "web"
    for name in ("timestamp", "appended_at", "first_delivered", "died_at"):
        assert headers.pop(f"dlq.{name}").endswith("Z")
    assert headers == {
        "dlq.topic": "plain",
        "dlq.partition": "0",
        "dlq.offset": "0",
        "dlq.key": "k",
        "dlq.attempts": "1",
        "dlq.group": "workers",
        "dlq.reason": "rejected",
        "dlq.error": "no good",
    }


def test_a_message_dies_after_its_last_attempt(shared_broker: BrokerProcess) -> None:
    work = FailingWork(shared_broker, "attempts", partitions=1, max_attempts=3)
    work.publish("hello")
    for attempt in range(1, 4):
        [message] = work.receive(1)
        assert message["attempt"] == attempt
        assert work.dead_letters()["messages"] == []
        work.settle("nack", [message], delay=0, reason=f"error {attempt}")
    [dead_letter] = work.wait_for_dead_letters(1)
    assert (dead_letter["reason"], dead_letter["last_error"], dead_letter["attempts"]) == (
        "max_attempts",
        "error 3",
        3,
    )


def test_a_lease_that_ends_for_the_last_time(shared_broker: BrokerProcess) -> None:
    work = FailingWork(shared_broker, "leases", partitions=1, max_attempts=1, visibility="50ms")
    work.publish("hello")
    work.receive(1)
    [dead_letter] = work.wait_for_dead_letters(1)
    assert (dead_letter["reason"], dead_letter["attempts"], bool(dead_letter["last_error"])) == (
        "max_attempts",
        1,
        True,
    )


def test_a_message_past_its_time(shared_broker: BrokerProcess) -> None:
    work = FailingWork(shared_broker, "late", partitions=1)
    work.publish("too late", ttl="1ms")
    work.publish("in time", ttl="1h")
    published = time.time_ns()
    while time.time_ns() < published + 2_000_000:
        pass
    [message] = work.receive(1)
    assert message["value"] == "in time"
    [dead_letter] = work.wait_for_dead_letters(1)
    assert (dead_letter["value"], dead_letter["reason"], dead_letter["attempts"]) == ("too late", "expired", 0)


def test_a_letter_for_each_group(shared_broker: BrokerProcess) -> None:
    work = FailingWork(shared_broker, "groups", partitions=1)
    work.publish("a", "b")
    for group in ("left", "right"):
        work.settle("reject", work.receive(2, group), reason=f"{group} says no")
    dead_letters = work.wait_for_dead_letters(4)
    found = sorted(
        (dead_letter["value"], dead_letter["original"]["group"], dead_letter["last_error"])
        for dead_letter in dead_letters
    )
    assert found == [(v, g, f"{g} says no") for v in ("a", "b") for g in ("left", "right")]
    assert len(work.values(group="left")) == 2
    assert work.values(group="nobody") == []


def test_a_letter_in_a_dead_letter_topic_dies_no_second_time(shared_broker: BrokerProcess) -> None:
    work = FailingWork(shared_broker, "twice", partitions=1)
    work.kill_off("hello")
    work.wait_for_dead_letters(1)
    dead_letters = FailingWork(shared_broker, "twice.dlq", exists=True)
    dead_letters.settle("reject", dead_letters.receive(1, "readers"))
    assert "twice.dlq.dlq" not in work.ask("GET", "/topics")["topics"]
    assert work.values() == ["hello"], "it stays where it is"
    assert dead_letters.values() == ["hello"], "the dead-letter topic may be named, too"


def test_letters_follow_when_the_topic_grows(shared_broker: BrokerProcess) -> None:
    work = FailingWork(shared_broker, "grows", partitions=1)
    work.kill_off("before")
    work.wait_for_dead_letters(1)
    work.ask("POST", "/admin/topics/grows/partitions", {"count": 4})
    work.kill_off("after", partition=3)
    assert [dead_letter["id"] for dead_letter in work.wait_for_dead_letters(2)] == ["0:0", "3:0"]
    assert work.ask("GET", "/topics/grows.dlq")["partitions"] == 4


def test_values_that_are_no_text(shared_broker: BrokerProcess) -> None:
    work = FailingWork(shared_broker, "bytes", partitions=1)
    body = {"messages": [{"value_base64": "//79", "key_base64": "//8="}, {"tombstone": True, "key": "k"}]}
    work.ask("POST", "/topics/bytes/messages", body)
    work.settle("reject", work.receive(2))
    first, second = work.wait_for_dead_letters(2)
    assert (first["value_base64"], first["key_base64"]) == ("//79", "//8=")
    assert (second["value"], second["tombstone"], second["original"]["key"]) == (None, True, "k")


def test_a_message_of_the_largest_size_dies_too(shared_broker: BrokerProcess) -> None:
    work = FailingWork(shared_broker, "large", partitions=1, max_message_bytes=1000)
    work.kill_off("x" * 1000, reason="e" * 5000)
    [dead_letter] = work.wait_for_dead_letters(1)
    assert dead_letter["value"] == "x" * 1000
    assert dead_letter["last_error"].startswith("eee")
    assert work.redrive()["redriven"] == 1
    assert work.receive(1)[0]["value"] == "x" * 1000


def test_without_letters_there_is_an_empty_page(shared_broker: BrokerProcess) -> None:
    work = FailingWork(shared_broker, "healthy")
    page = work.dead_letters()
    assert (page["messages"], page["total"], page["next"]) == ([], 0, None)
    assert work.redrive()["redriven"] == 0
    assert work.purge()["purged"] == 0
    assert "healthy.dlq" not in work.ask("GET", "/topics")["topics"]
    assert work.ask("GET", "/topics/unknown/dlq", status=404)["code"] == "topic_not_found"
    assert work.ask("POST", "/topics/unknown/dlq/redrive", {}, status=404)["code"] == "topic_not_found"


def test_pages_hold_each_letter_once(shared_broker: BrokerProcess) -> None:
    work = FailingWork(shared_broker, "pages", partitions=3)
    values = [f"m{number}" for number in range(25)]
    for number in range(0, 25, 5):
        work.kill_off(*values[number : number + 5], partition=number % 3)
        work.wait_for_dead_letters(number + 5)
    assert work.values(limit=7) == values
    assert work.values(limit=7, order="newest") == values[::-1]
    assert [len(work.dead_letters(limit=limit)["messages"]) for limit in (1, 24, 25, 100)] == [1, 24, 25, 25]
    assert work.dead_letters(limit=25)["next"] is None
    assert work.dead_letters(limit=3, skip=20)["messages"][0]["value"] == "m20"
    assert work.dead_letters(skip=25)["messages"] == []
    assert work.dead_letters(limit=1)["total"] == 25


def test_letters_are_looked_for(shared_broker: BrokerProcess) -> None:
    work = FailingWork(shared_broker, "search", partitions=2)
    work.kill_off("one apple", key="a", reason="too sour", partition=0)
    work.wait_for_dead_letters(1)
    work.kill_off("two pears", key="b", reason="too soft", partition=1)
    first, second = work.wait_for_dead_letters(2)
    assert work.values(key="b") == ["two pears"]
    assert work.values(reason="rejected") == ["one apple", "two pears"]
    assert work.values(reason="expired") == []
    assert work.values(contains="apple") == ["one apple"]
    assert work.values(contains="soft") == ["two pears"]
    assert work.values(partition=1) == ["two pears"]
    assert work.values(ids=f"{second['id']},7:7") == ["two pears"]
    assert work.values(from_time=second["died_at"]) == ["two pears"]
    assert work.values(to_time=first["died_at"]) == ["one apple"]
    assert work.values(key="a", contains="pears") == []


def test_what_cannot_be_is_refused(shared_broker: BrokerProcess) -> None:
    work = FailingWork(shared_broker, "refused")
    for query in ("limit=0", "skip=-1", "after=here", "ids=7", "order=up", "from_time=soon", "partition=x"):
        answer = work.ask("GET", f"/topics/refused/dlq?{query}", status=400)
        assert answer["code"] == "invalid_request", query
    for body in ({"ids": ["x"]}, {"limit": 0}, {"filter": {"key": "a"}, "key": "b"}, {"to": "no/name"}):
        assert work.ask("POST", "/topics/refused/dlq/redrive", body, status=400)["code"].startswith("invalid")
    work.kill_off("hello")
    work.wait_for_dead_letters(1)
    assert work.ask("POST", "/topics/refused/dlq/redrive", {"to": "unknown"}, status=404)
    assert work.ask("POST", "/topics/refused/dlq/redrive", {"to": "refused.dlq"}, status=400)
    assert work.values() == ["hello"]
