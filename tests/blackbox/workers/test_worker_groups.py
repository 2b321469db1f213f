"""Stream groups of a broker with several workers: single workers are killed under members, commits, polls, resets."""

import random
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import quiver
from blackbox.groups.group_history import (
    GroupJournal,
    check_all_processed,
    check_committed_is_not_seen_again,
    check_one_owner_at_a_time,
    member_histories,
)
from blackbox.groups.test_groups_chaos import Crowd, Trickle, has_no_lag
from blackbox.processes.broker_process import BrokerProcess, free_port, wait_until

WORKERS, PARTITIONS = 3, 6
TOPIC = "orders"
MORE = 300
"""Messages that are acknowledged between two kills."""


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[BrokerProcess]:
    ports = ["--native-port", str(free_port()), "--http-port", str(free_port())]
    with BrokerProcess(tmp_path / "data", "--workers", str(WORKERS), *ports) as process:
        body = {"name": TOPIC, "partitions": PARTITIONS, "visibility": "2s"}
        assert process.request("POST", "/topics", body)[0] == 201
        yield process


def asked(broker: BrokerProcess, method: str, path: str, body: Any = None, *, known: tuple[int, ...] = ()) -> Any:
    """The body of a response; None if a worker was killed on the way, or if it is one of the `known` refusals."""
    try:
        status, answer = broker.request(method, path, body)
    except OSError:
        return None
    assert status in (200, 503, *known), answer
    return answer if status == 200 else None


def kills(broker: BrokerProcess, before_each: Callable[[], None]) -> list[int]:
    """Every worker once, and one of them twice, in random order."""
    order = random.sample([*range(WORKERS), random.randrange(WORKERS)], WORKERS + 1)
    for worker in order:
        before_each()
        broker.kill_worker(worker)
    before_each()
    return order


@pytest.mark.timeout(240)
def test_members_keep_their_promises_although_workers_are_killed(broker: BrokerProcess, tmp_path: Path) -> None:
    load, crowd = Trickle(broker.address, TOPIC), Crowd(broker, tmp_path, random.Random())
    try:
        load.start()
        for commits in ("auto", "manual", "auto"):
            crowd.join(commits)

        def change() -> None:
            wanted = len(load.acked) + MORE
            wait_until(lambda: len(load.acked) >= wanted or load.error, 60, "acks")
            crowd.leave()
            crowd.join(random.choice(["auto", "manual"]))

        order = kills(broker, change)
        load.finish()
        crowd.finish()
        crowd.join("auto")
        crowd.join("auto")
        with quiver.connect(broker.address) as q:
            wait_until(lambda: has_no_lag(q), 60, f"everything is committed after kills of {order}")
            generation = q.groups.describe("billing").generation
        crowd.finish()
    finally:
        crowd.close()
    assert broker.terminate() == 0
    histories = member_histories(crowd.notes())
    check_all_processed(histories, load.acked)
    check_committed_is_not_seen_again(histories)
    check_one_owner_at_a_time(histories, crowd.stopped)
    journal = GroupJournal(broker.data_dir)
    assert journal.check_owners() >= generation
    assert set(journal.check_offsets()) == set(range(PARTITIONS))


class Task(threading.Thread):
    """Repeats a step until it is told to finish."""

    def __init__(self, step: Callable[[], None]) -> None:
        super().__init__(daemon=True)
        self._step, self._stopping = step, threading.Event()
        self.error: BaseException | None = None
        self.start()

    def run(self) -> None:
        try:
            while not self._stopping.is_set():
                self._step()
        except BaseException as error:
            self.error = error

    def finish(self) -> None:
        self._stopping.set()
        self.join(60)
        assert not self.is_alive()
        if self.error is not None:
            raise self.error


class PollMember:
    """Polls and acks each message by its receipt; joins again when it was put out."""

    def __init__(self, broker: BrokerProcess, name: str, acked: set[tuple[int, int]]) -> None:
        self._broker, self._name, self._member = broker, name, ""
        self.acked, self.again = acked, list[tuple[int, int]]()
        self.doubtful: set[tuple[int, int]] = set()

    def step(self) -> None:
        if not self._member:
            body = {"client_id": self._name, "topics": [TOPIC], "session_timeout": "2s"}
            joined = asked(self._broker, "POST", "/groups/polls/join/cooperative", body)
            self._member = joined["member_id"] if joined else ""
            return
        path = f"/groups/polls/poll?member_id={self._member}&timeout=300ms&max_messages=20"
        polled = asked(self._broker, "GET", path, known=(404, 409))
        if polled is None:
            if (
                asked(self._broker, "GET", f"/groups/polls/assignment?member_id={self._member}", known=(404, 409))
                is None
            ):
                self._member = ""
            return
        messages = {
            message["receipt_handle"]: (message["partition"], message["offset"]) for message in polled["messages"]
        }
        self.again += [message for message in messages.values() if message in self.acked]
        tried: list[str] = []
        wait_until(lambda: self._ack(messages, tried), 60, "acks")

    def _ack(self, messages: dict[str, tuple[int, int]], tried: list[str]) -> bool:
        """Whether all of them have an outcome: acks that may have got lost are repeated. If such a one is refused
        then, it had counted, or the message comes again."""
        answer = asked(self._broker, "POST", "/messages/ack", {"receipts": list(messages)}) if messages else None
        results = answer["results"] if answer else []
        for receipt, result in zip(list(messages), results, strict=False):
            if result["success"]:
                self.acked.add(messages.pop(receipt))
            elif result["code"] == "lease_lost":
                message = messages.pop(receipt)
                if receipt in tried:
                    self.doubtful.add(message)
        tried += messages
        return not messages


class Resetter:
    """Resets a group without members, one reset after the other: a success counts, a failure counts or does not."""

    def __init__(self, broker: BrokerProcess) -> None:
        self._broker, self.resets = broker, 0
        self._may_be: list[int] = [0]
        """What the group's offset may be in every partition."""

    def step(self) -> None:
        to = random.randrange(4)
        body = {"topic": TOPIC, "to": str(to)}
        if asked(self._broker, "POST", "/groups/resets/offsets/reset", body) is None:
            self._may_be.append(to)
            return
        self._may_be, self.resets = [to], self.resets + 1
        self.check()

    def check(self) -> None:
        committed = asked(self._broker, "GET", f"/groups/resets/offsets?topic={TOPIC}")
        if committed is not None:
            offsets = set(committed["offsets"][TOPIC].values())
            assert len(offsets) == 1, f"part of a reset was made: {committed}"
            assert offsets <= set(self._may_be), f"{offsets} after resets to {self._may_be}"


def position(broker: BrokerProcess) -> dict[int, int]:
    committed = asked(broker, "GET", f"/groups/polls/offsets?topic={TOPIC}", known=(404,))
    return {int(number): offset for number, offset in committed["offsets"][TOPIC].items()} if committed else {}


@pytest.mark.timeout(240)
def test_polls_and_resets_hold_although_workers_are_killed(broker: BrokerProcess) -> None:
    load, acked = Trickle(broker.address, TOPIC), set[tuple[int, int]]()
    load.start()
    wait_until(lambda: len(load.acked) >= 10 * PARTITIONS, 60, "first messages")
    offsets = {TOPIC: {str(number): 0 for number in range(PARTITIONS)}}
    body = {"offsets": offsets, "create": True}
    wait_until(lambda: asked(broker, "POST", "/groups/resets/offsets", body), 60, "the group that is reset")
    members = [PollMember(broker, f"m{number}", acked) for number in range(2)]
    resetter = Resetter(broker)
    tasks = [Task(member.step) for member in members] + [Task(resetter.step)]

    def more() -> None:
        wanted, resets = len(load.acked) + MORE, resetter.resets + 2
        wait_until(
            lambda: (len(load.acked) >= wanted and resetter.resets >= resets) or any(task.error for task in tasks),
            60,
            "more messages and resets",
        )

    order = kills(broker, more)
    load.finish()
    tasks.pop().finish()
    resetter.check()
    ends = {number: 1 + max(offset for part, offset in load.acked if part == number) for number in range(PARTITIONS)}
    wait_until(lambda: position(broker) == ends or any(task.error for task in tasks), 60, f"{ends} after {order}")
    for task in tasks:
        task.finish()
    assert load.acked <= acked.union(*(member.doubtful for member in members)), "settled, and nobody has acked it"
    assert [member.again for member in members] == [[], []], "delivered although it was acked"
    described = asked(broker, "GET", "/groups/polls")
    assert sum(part["lag"] for part in described["partitions"]) == 0
    assert {group["id"] for group in asked(broker, "GET", "/groups")["groups"]} == {"polls", "resets"}
