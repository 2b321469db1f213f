"""What other brokers got wrong with queues, one test each, through the shipped program."""

import threading
from collections import Counter
from typing import Any

import pytest

from blackbox.callers.http_queue import HttpQueue, values
from blackbox.callers.native_wire import NativeWire
from blackbox.processes.broker_process import BrokerProcess, wait_until
from quiver.model.settlement import ACK, NACK, SettleRequest
from quiver.protocol import messages as m
from quiver.protocol.queue_messages import Receive, Received, Settle, Settled

SECONDS = 30.0


@pytest.fixture
def queue(shared_broker: BrokerProcess) -> HttpQueue:
    return HttpQueue(shared_broker)


def test_acks_move_the_position_of_the_group(queue: HttpQueue) -> None:
    queue.publish(*"abcd")
    a, b, c, d = queue.receive()
    assert queue.settle("ack", b)["committed_offset"] == 0
    moved = queue.settle("ack", a)
    assert (moved["committed_offset"], moved["offset_advanced"]) == (2, True)
    assert [result["committed_offset"] for result in queue.settle_many("ack", [c, d])] == [4, 4]
    depth = queue.depth()
    assert (depth["ready"], depth["leased"], depth["retrying"], depth["oldest_age"]) == (0, 0, 0, 0)


def test_a_second_group_is_not_starved_by_the_first(queue: HttpQueue) -> None:
    queue.publish(*[str(number) for number in range(50)])
    first = queue.receive("first", max_messages=50)
    assert len(first) == 50
    for message in first[:25]:
        queue.settle("ack", message)
    queue.settle_many("reject", first[25:])
    second = queue.receive("second", max_messages=50)
    assert values(second) == values(first)
    assert {message["attempt"] for message in second} == {1}
    assert all(result["success"] for result in queue.settle_many("ack", second))
    assert queue.depth("first")["dead"] == 25
    assert queue.depth("second")["dead"] == 0


def test_one_unacked_message_blocks_nothing_else(queue: HttpQueue) -> None:
    queue.publish("stuck", *[str(number) for number in range(300)])
    stuck = queue.receive_one(visibility="1h")
    assert stuck["value"] == "stuck"
    for start in range(0, 300, 100):
        messages = queue.receive_all(100, consumer="two")
        assert values(messages) == [str(number) for number in range(start, start + 100)]
        assert all(result["success"] for result in queue.settle_many("ack", messages))
    assert queue.receive() == []
    assert queue.settle("ack", stuck)["committed_offset"] == 301


def test_one_failing_key_holds_up_itself_alone(queue: HttpQueue) -> None:
    queue.publish_messages([{"value": f"{key}{n}", "key": key} for n in range(3) for key in "abc"])
    seen: list[str] = []

    def all_but_one_key() -> bool:
        for message in queue.receive("lanes", ordering="key", max_messages=1):
            if message["key"] == "a":
                queue.settle("nack", message, delay="1h", counted=False)
            else:
                seen.append(message["value"])
                queue.settle("ack", message)
        return len(seen) == 6

    wait_until(all_but_one_key, SECONDS, "the other keys flow on")
    assert [value for value in seen if value[0] == "b"] == ["b0", "b1", "b2"]
    assert [value for value in seen if value[0] == "c"] == ["c0", "c1", "c2"]
    assert queue.depth("lanes")["blocked_keys"] == [{"key": "a", "waiting": 2}]


def test_nacked_messages_are_redelivered(queue: HttpQueue) -> None:
    """To whoever asks, also when the one that gave them back never returns."""
    queue.publish(*"abc")
    given_back = queue.receive(consumer="gone")
    assert all(result["success"] for result in queue.settle_many("nack", given_back, delay="200ms", reason="no"))
    again = queue.receive_all(3, consumer="here")
    assert sorted(values(again)) == ["a", "b", "c"]
    assert {(message["attempt"], message["last_error"]) for message in again} == {(2, "no")}


def test_a_nacked_message_wakes_a_receiver_that_waits(queue: HttpQueue) -> None:
    queue.publish("a")
    held = queue.receive_one("woken")
    found: list[dict[str, Any]] = []
    waiting = threading.Thread(
        target=lambda: found.extend(queue.receive("woken", consumer="two", wait="60s")), daemon=True
    )
    waiting.start()
    wait_until(lambda: "two" in str(queue.call("GET", "/groups/woken")["members"]), SECONDS, "somebody waits")
    queue.settle("nack", held, delay="50ms")
    waiting.join(SECONDS)
    assert [(message["value"], message["attempt"]) for message in found] == [("a", 2)]


def test_an_expired_lease_is_redelivered_while_others_wait(queue: HttpQueue) -> None:
    queue.publish("a")
    queue.receive_one(visibility="300ms")
    again = queue.receive_one(consumer="two", wait="20s")
    assert (again["value"], again["attempt"]) == ("a", 2)


def test_priorities_skip_nothing(queue: HttpQueue) -> None:
    """Messages published before a critical one are still delivered, and nothing is delivered twice."""
    seen: list[str] = []
    for turn in range(6):
        for level in ("background", "normal", "critical"):
            queue.publish(*[f"{level} {turn} {n}" for n in range(5)], priority=level)
        messages = queue.receive_all(4)
        seen += values(messages)
        queue.settle_many("ack", messages)
    first = seen[: len(seen)]
    rest = queue.receive_all(90 - len(seen))
    queue.settle_many("ack", rest)
    seen += values(rest)
    expected = [
        f"{level} {t} {n}" for level in ("background", "normal", "critical") for t in range(6) for n in range(5)
    ]
    assert sorted(seen) == sorted(expected)
    for level in ("background", "normal", "critical"):
        assert [value for value in seen if value.startswith(level)] == [v for v in expected if v.startswith(level)]
    critical = sum(value.startswith("critical") for value in first)
    assert critical > sum(value.startswith("background") for value in first)
    assert queue.receive() == []


def test_low_priorities_are_not_starved(queue: HttpQueue) -> None:
    """Five levels full of messages: each gets its share by weight, none waits for another to end."""
    levels = ("critical", "high", "normal", "low", "background")
    for level in levels:
        queue.publish(*[level] * 200, priority=level)
    shares = Counter(values(queue.receive_all(200, max_messages=10)))
    assert set(shares) == set(levels)
    assert [level for level, _ in shares.most_common()] == list(levels)


def test_cancelled_delays_are_never_delivered(queue: HttpQueue) -> None:
    results = queue.publish("cancelled", "kept", delay="700ms")
    assert all(result["delayed"] for result in results)
    place = f"/topics/{queue.topic}/delayed/{results[0]['partition']}/{results[0]['offset']}"
    assert queue.call("DELETE", place)["canceled"]
    assert queue.receive_one()["value"] == "kept"
    assert queue.receive() == []
    assert queue.call("GET", place)["state"] == "cancelled"
    stored = queue.call("GET", f"/topics/{queue.topic}/messages?partition=0")["messages"]
    assert values(stored) == ["kept"]


def test_a_delayed_message_is_not_passed_by_the_position_of_a_group(queue: HttpQueue) -> None:
    """It enters the topic when it is due, behind everything that the group has settled by then."""
    queue.publish("delayed", delay="500ms")
    queue.publish("now")
    assert queue.settle("ack", queue.receive_one())["committed_offset"] == 1
    delayed = queue.receive_one()
    assert (delayed["value"], delayed["offset"]) == ("delayed", 1)


def test_retention_wins(queue: HttpQueue) -> None:
    queue.publish(*"abc")
    [held] = queue.receive(max_messages=1)
    queue.call("POST", f"/topics/{queue.topic}/purge")
    assert queue.receive() == []
    depth = queue.depth()
    assert (depth["ready"], depth["leased"], depth["retrying"]) == (0, 0, 0)
    queue.settle("ack", held, status=410)
    queue.publish("d")
    assert queue.receive_one()["value"] == "d"


def test_a_nack_is_not_swallowed_by_an_ack_of_the_same_call(queue: HttpQueue) -> None:
    """In one request: the third of five is given back, then all five are acked."""
    queue.publish(*"abcde")
    with NativeWire(queue.broker.address) as wire:
        metadata = wire.ask(m.GetMetadata([queue.topic]))
        assert isinstance(metadata, m.Metadata)
        topic_id = metadata.topics[0].id
        wire.send(Receive([topic_id], "native"))
        received = wire.answer()
        assert isinstance(received, Received)
        [run] = received.runs
        part = (topic_id, run.partition, run.group_id, run.lease_id)
        settled = wire.ask(Settle([SettleRequest(*part, NACK, [(2, 3)], 0), SettleRequest(*part, ACK, [(0, 5)])]))
    assert isinstance(settled, Settled)
    given_back, acked = settled.parts
    assert given_back.refused == []
    assert [(one.start, one.end, one.code) for one in acked.refused] == [(2, 3, "lease_lost")]
    [again] = queue.receive_all(1, "native")
    assert (again["value"], again["attempt"]) == ("c", 2)
    assert queue.receive("native") == []


def test_pushes_behind_the_cursor_are_delivered(shared_broker: BrokerProcess) -> None:
    """Many publishers at once, of all priorities, while consumers are at the end of the log."""
    queue = HttpQueue(shared_broker, partitions=3, durability="interval")
    levels = ("critical", "normal", "background")

    def publish(publisher: int) -> None:
        for number in range(40):
            queue.publish(f"{publisher}:{number}", priority=levels[(publisher + number) % 3], key=str(number % 7))

    def consume(name: str, seen: list[str]) -> None:
        while True:
            was_last = all_published.is_set()
            messages = queue.receive(consumer=name, max_messages=7, wait="100ms")
            assert all(result["success"] for result in queue.settle_many("ack", messages))
            seen += values(messages)
            if was_last and not messages:
                return

    all_published = threading.Event()
    seen: list[list[str]] = [[], []]
    publishers = [threading.Thread(target=publish, args=(publisher,)) for publisher in range(4)]
    consumers = [threading.Thread(target=consume, args=(f"c{n}", seen[n])) for n in range(2)]
    for thread in publishers + consumers:
        thread.start()
    for thread in publishers:
        thread.join(60)
    all_published.set()
    for thread in consumers:
        thread.join(60)
    assert Counter(seen[0] + seen[1]) == Counter(f"{publisher}:{n}" for publisher in range(4) for n in range(40))


def test_dead_letters_have_pages(queue: HttpQueue) -> None:
    queue.publish(*[str(number) for number in range(250)])
    messages = queue.receive(max_messages=250)
    assert all(result["success"] for result in queue.settle_many("reject", messages, reason="no"))
    queue.dead_letters(250)
    path, pages = f"/topics/{queue.topic}/dlq?limit=100", []
    page = queue.call("GET", path)
    pages.append(values(page["messages"]))
    while page["next"] is not None:
        page = queue.call("GET", f"{path}&after={page['next']}")
        pages.append(values(page["messages"]))
    assert [len(page) for page in pages] == [100, 100, 50]
    assert sorted(int(value) for page in pages for value in page) == list(range(250))


def test_messages_past_their_time_are_dead_letters_and_not_delivered(queue: HttpQueue) -> None:
    queue.publish("brief", ttl="1ms")
    queue.publish("lasting", ttl="1h")
    wait_until(lambda: values(queue.receive()) == ["lasting"], SECONDS, "what lasts is delivered, and nothing else")
    [dead_letter] = queue.dead_letters(1)
    assert (dead_letter["value"], dead_letter["reason"]) == ("brief", "expired")


def test_a_dead_letter_topic_has_none_of_its_own(queue: HttpQueue) -> None:
    queue.publish("a")
    queue.settle("reject", queue.receive_one())
    queue.dead_letters(1)
    dead = f"/topics/{queue.topic}.dlq"
    [dead_letter] = queue.call("POST", f"{dead}/receive", {"group": "readers", "wait": "20s"})["messages"]
    assert queue.settle("reject", dead_letter)["dlq_topic"] is None
    assert queue.call("POST", f"{dead}/receive", {"group": "readers"})["messages"] == []
    assert f"{queue.topic}.dlq.dlq" not in queue.call("GET", "/topics")["topics"]
    assert len(queue.dead_letters()) == 1


def test_a_consumer_that_acks_nothing_is_held_back(shared_broker: BrokerProcess) -> None:
    queue = HttpQueue(shared_broker, max_unacked=5)
    queue.publish(*[str(number) for number in range(20)])
    greedy = queue.receive(max_messages=20)
    assert len(greedy) == 5
    assert queue.receive(max_messages=20) == []
    assert values(queue.receive(consumer="two", max_messages=2)) == ["5", "6"]
    queue.settle("ack", greedy[0])
    assert values(queue.receive(max_messages=20)) == ["7"]


def test_a_late_ack_counts_until_another_has_the_message(queue: HttpQueue) -> None:
    queue.publish("a", "b")
    late, too_late = queue.receive(visibility="1ms")
    queue.wait_for_depth(leased=0, ready=2)
    assert queue.settle("ack", late)["success"]
    again = queue.receive_one(consumer="two")
    assert again["value"] == "b"
    assert queue.settle("ack", too_late, status=410)["code"] == "lease_lost"
    assert queue.settle("ack", again)["success"]


def test_the_numbers_of_a_queue_move(queue: HttpQueue) -> None:
    """Depth, age, lag and counters, from publish to ack."""
    queue.publish(*"abc")
    messages = queue.receive("moving", max_messages=2)
    before = queue.call("GET", "/reliability/stats")["topics"][queue.topic]
    assert (before["in_flight"], before["acks_total"]) == (2, 0)
    assert queue.depth("moving")["ready"] == 1
    [shown] = [group for group in queue.call("GET", "/groups")["groups"] if group["id"] == "moving"]
    assert (shown["kind"], shown["lag"], shown["topics"]) == ("queue", 1, [queue.topic])
    queue.settle_many("ack", messages)
    after = queue.call("GET", "/reliability/stats")["topics"][queue.topic]
    assert (after["in_flight"], after["acks_total"]) == (0, 2)
    queue.settle("ack", queue.receive_one("moving"))
    assert queue.depth("moving")["ready"] == 0
    [shown] = [group for group in queue.call("GET", "/groups")["groups"] if group["id"] == "moving"]
    assert shown["lag"] == 0
