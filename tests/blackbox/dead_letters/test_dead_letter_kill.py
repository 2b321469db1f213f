"""kill -9 while messages are moved to the dead-letter topic, and while they are redriven: each arrives once."""

import threading
from collections import Counter
from contextlib import suppress
from typing import Any

from blackbox.callers.failing_work import FailingWork
from blackbox.processes.broker_process import BrokerProcess


def test_every_rejected_message_has_one_letter(broker: BrokerProcess) -> None:
    """In each round the broker is killed right behind an answer, and while a reject is under way."""
    work = FailingWork(broker, "jobs", partitions=3, max_attempts=100)
    values = [f"m{number}" for number in range(200)]
    work.publish(*values)
    rejected: set[str] = set()

    def reject(messages: list[dict[str, Any]]) -> None:
        given = {message["value"] for message in messages}
        assert not rejected.intersection(given), "a message that was rejected came again"
        with suppress(OSError):
            work.settle("reject", messages)
            rejected.update(given)

    for _ in range(2):
        reject(work.receive(20))
        under_way = threading.Thread(target=reject, args=[work.receive(20, visibility="1s")])
        under_way.start()
        reject(work.receive(20))
        broker.kill()
        under_way.join()
        broker.start()
        dead_letters = Counter(dead_letter["value"] for dead_letter in work.wait_for_dead_letters(len(rejected)))
        assert max(dead_letters.values()) == 1
        assert rejected <= dead_letters.keys()
    while (missing := len(values) - work.dead_letters()["total"]) > 0:
        reject(work.receive_some(missing))
        work.wait_for_dead_letters(len(rejected))
    assert Counter(work.values()) == Counter(values)


def test_every_letter_is_sent_back_once(broker: BrokerProcess) -> None:
    work = FailingWork(broker, "jobs", partitions=3)
    values = [f"m{number}" for number in range(3000)]
    work.publish(*values)
    for _ in range(3):
        work.settle("reject", work.receive(1000))
    work.wait_for_dead_letters(len(values))

    def redrive() -> None:
        with suppress(OSError):
            work.redrive()

    redriving = threading.Thread(target=redrive)
    redriving.start()
    while len(work.stored()) == len(values):
        pass
    broker.kill()
    redriving.join()
    broker.start()
    work.redrive()
    messages = []
    while len(messages) < len(values):
        some = work.receive(min(1000, len(values) - len(messages)))
        work.settle("ack", some)
        messages += some
    assert Counter(message["value"] for message in messages) == Counter(values)
    assert Counter(message["value"] for message in work.stored()) == Counter(values * 2)
    assert work.dead_letters()["total"] == 0
