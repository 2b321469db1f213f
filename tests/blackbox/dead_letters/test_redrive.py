"""Dead letters that go back to work, or go for good: once, and for every future."""

import threading
import urllib.request

import msgspec

from blackbox.callers.failing_work import FailingWork
from blackbox.processes.broker_process import BrokerProcess


def test_a_redriven_message_is_as_it_was(shared_broker: BrokerProcess) -> None:
    work = FailingWork(shared_broker, "back", partitions=3)
    work.kill_off(
        "hello", key="k", partition=2, headers={"a": "b"}, priority="low", timestamp="2024-05-06T07:08:09.123Z"
    )
    [dead_letter] = work.wait_for_dead_letters(1)
    answer = work.redrive()
    assert (answer["redriven"], answer["count"], answer["ids"]) == (1, 1, [dead_letter["id"]])
    assert (answer["dlq_topic"], answer["dry_run"], answer["not_found"]) == ("back.dlq", False, [])
    [message] = work.receive(1)
    assert (message["partition"], message["offset"], message["attempt"]) == (2, 1, 1)
    assert (message["key"], message["value"], message["headers"]) == ("k", "hello", {"a": "b"})
    assert (message["priority"], message["timestamp"]) == ("low", "2024-05-06T07:08:09.123Z")
    page = work.dead_letters()
    assert (page["messages"], page["total"]) == ([], 0)


def test_a_message_is_redriven_once(shared_broker: BrokerProcess) -> None:
    work = FailingWork(shared_broker, "once", partitions=2)
    work.kill_off("a", "b", "c")
    ids = [dead_letter["id"] for dead_letter in work.wait_for_dead_letters(3)]
    assert work.redrive(ids=[ids[0], ids[0]])["redriven"] == 1
    assert work.redrive(ids=ids[:1])["not_found"] == ids[:1]
    answers = []
    threads = [threading.Thread(target=lambda: answers.append(work.redrive()["redriven"])) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(answers) == [0, 0, 0, 2]
    assert sorted(message["value"] for message in work.receive(3)) == ["a", "b", "c"]
    assert len(work.stored()) == 6


def test_a_message_that_dies_again_is_a_letter_again(shared_broker: BrokerProcess) -> None:
    work = FailingWork(shared_broker, "again", partitions=1)
    work.kill_off("hello")
    work.wait_for_dead_letters(1)
    for round in range(1, 4):
        assert work.redrive()["redriven"] == 1
        work.settle("reject", work.receive(1), reason=f"round {round}")
        [dead_letter] = work.wait_for_dead_letters(1)
        assert (dead_letter["last_error"], dead_letter["original"]["offset"]) == (f"round {round}", round)
        assert dead_letter["headers"] == {}


def test_some_are_redriven_and_the_others_stay(shared_broker: BrokerProcess) -> None:
    work = FailingWork(shared_broker, "some", partitions=2)
    work.kill_off("a1", "a2", "a3", key="a", reason="sour")
    work.kill_off("b1", "b2", key="b", reason="soft")
    work.wait_for_dead_letters(5)
    assert work.redrive(contains="a1", dry_run=True)["redriven"] == 1
    assert work.redrive(dry_run=True)["redriven"] == 5
    assert work.redrive(ids=[])["redriven"] == 0
    assert len(work.values()) == 5, "a dry run changes nothing"
    assert work.redrive(filter={"contains": "soft", "key": "b"}, limit=1)["redriven"] == 1
    assert sorted(work.values()) == ["a1", "a2", "a3", "b2"]
    assert work.redrive(key="a", reason="rejected")["redriven"] == 3
    assert work.values() == ["b2"]
    assert [message["value"] for message in work.receive(4)].count("b1") == 1


def test_letters_go_to_another_topic(shared_broker: BrokerProcess) -> None:
    work = FailingWork(shared_broker, "from", partitions=3)
    other = FailingWork(shared_broker, "there", partitions=2)
    work.kill_off("a", "b", partition=2)
    work.kill_off("c", key="k", partition=0)
    work.wait_for_dead_letters(3)
    assert work.redrive(to="there")["redriven"] == 3
    assert sorted(message["value"] for message in other.receive(3)) == ["a", "b", "c"]
    assert len(work.stored()) == 3


def test_a_letter_whose_topic_is_gone(shared_broker: BrokerProcess) -> None:
    work = FailingWork(shared_broker, "gone", partitions=1)
    work.kill_off("a")
    work.wait_for_dead_letters(1)
    work.ask("DELETE", "/topics/gone")
    assert work.values() == ["a"], "dead letters outlive their topic"
    assert work.ask("POST", "/topics/gone/dlq/redrive", {}, status=404)["code"] == "topic_not_found"
    assert work.values() == ["a"]
    FailingWork(shared_broker, "gone", partitions=1)
    assert work.redrive()["redriven"] == 1
    assert work.receive(1)[0]["value"] == "a"


def test_messages_that_were_published_to_a_dead_letter_topic(shared_broker: BrokerProcess) -> None:
    work = FailingWork(shared_broker, "handmade", partitions=2)
    by_hand = FailingWork(shared_broker, "handmade.dlq", partitions=2)
    by_hand.publish("hello", partition=1)
    [dead_letter] = work.all_dead_letters()
    assert (dead_letter["value"], dead_letter["reason"], dead_letter["original"]) == ("hello", None, None)
    assert work.redrive()["redriven"] == 1
    [message] = work.receive(1)
    assert (message["value"], message["partition"]) == ("hello", 1)


def test_purged_letters_are_gone(shared_broker: BrokerProcess) -> None:
    work = FailingWork(shared_broker, "purged", partitions=2)
    work.kill_off("a", "b", "c")
    dead_letters = {dead_letter["value"]: dead_letter["id"] for dead_letter in work.wait_for_dead_letters(3)}
    assert work.purge(dry_run=True)["purged"] == 3
    answer = work.purge(ids=[dead_letters["a"], "1:999"])
    assert (answer["purged"], answer["ids"], answer["not_found"]) == (1, [dead_letters["a"]], ["1:999"])
    assert sorted(work.values()) == ["b", "c"]
    assert work.redrive(ids=[dead_letters["a"]])["redriven"] == 0
    assert work.purge()["purged"] == 2
    assert work.dead_letters()["total"] == 0
    assert len(work.stored()) == 3, "nothing went back"


def test_whoever_works_on_the_letters_gets_those_that_are_left(shared_broker: BrokerProcess) -> None:
    work = FailingWork(shared_broker, "mortuary", partitions=1)
    work.kill_off("a", "b", "c", "d")
    ids = [dead_letter["id"] for dead_letter in work.wait_for_dead_letters(4)]
    work.purge(ids=ids[1:2])
    work.redrive(ids=ids[2:3])
    dead_letters = FailingWork(shared_broker, "mortuary.dlq", exists=True)
    assert [message["value"] for message in dead_letters.receive(2, "readers")] == ["a", "d"]
    assert dead_letters.receive_some(10, "readers", wait=0) == []


def test_purged_letters_take_no_room(shared_broker: BrokerProcess) -> None:
    work = FailingWork(shared_broker, "room", partitions=1)
    work.kill_off(*["x" * 10_000] * 20)
    work.wait_for_dead_letters(20)
    assert work.ask("GET", "/topics/room.dlq")["total_size_bytes"] > 200_000
    work.purge()
    assert work.ask("GET", "/topics/room.dlq")["total_size_bytes"] == 0
    work.kill_off("one more")
    assert [dead_letter["id"] for dead_letter in work.wait_for_dead_letters(1)] == ["0:20"]


def test_many_letters_go_in_slices(shared_broker: BrokerProcess) -> None:
    work = FailingWork(shared_broker, "many", partitions=3)
    values = [f"m{number}" for number in range(3000)]
    work.publish(*values)
    for _ in range(3):
        work.settle("reject", work.receive(1000))
    work.wait_for_dead_letters(3000)
    assert len(work.dead_letters()["messages"]) == 1000, "the limit that holds where none is given"
    assert sorted(work.values()) == sorted(values)
    packed = urllib.request.Request(
        f"{shared_broker.http}/topics/many/dlq", headers={"accept": "application/msgpack"}
    )
    with urllib.request.urlopen(packed, timeout=30) as unpacked:
        assert msgspec.msgpack.decode(unpacked.read()) == work.dead_letters(), "in both forms"
    answer = work.redrive()
    assert (answer["redriven"], len(answer["ids"])) == (3000, 1000)
    received = [message["value"] for _ in range(3) for message in _acked(work, 1000)]
    assert sorted(received) == sorted(values)


def _acked(work: FailingWork, count: int) -> list[dict[str, str]]:
    messages = work.receive(count)
    work.settle("ack", messages)
    return messages


def test_what_was_taken_stays_taken_after_a_restart(broker: BrokerProcess) -> None:
    for kill in (True, False):
        work = FailingWork(broker, f"kept-{kill}", partitions=1)
        work.kill_off("a", "b", "c", "d")
        ids = [dead_letter["id"] for dead_letter in work.wait_for_dead_letters(4)]
        work.redrive(ids=ids[:1])
        work.purge(ids=ids[1:2])
        broker.restart(kill=kill)
        assert work.values() == ["c", "d"]
        assert work.redrive(ids=ids[:2])["not_found"] == ids[:2]
        assert work.redrive()["redriven"] == 2
        assert sorted(message["value"] for message in work.receive(3)) == ["a", "c", "d"]
