"""A random walk through queues over HTTP, with restarts and kill -9, against the model of what must hold.

`make chaos` (QUIVER_LONG=1) walks further, and elsewhere each time; QUIVER_CHAOS_ROUNDS and QUIVER_CHAOS_SEED choose.
"""

import json
import os
import random
import socket
import sys
import time
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any

import pytest
from hypothesis import Phase, seed, settings
from hypothesis import strategies as st
from hypothesis.errors import HypothesisException
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule, run_state_machine_as_test

from blackbox.callers.http_queue import HttpQueue
from blackbox.processes.broker_process import BrokerProcess, wait_until
from blackbox.queues.queue_model import CLOCK_MS, MAX_ATTEMPTS, GroupModel, Held, Message, Standing

LONG = bool(os.environ.get("QUIVER_LONG"))
WALKS = 3
ROUNDS = int(os.environ.get("QUIVER_CHAOS_ROUNDS", "25" if LONG else "2"))
SEED = int(os.environ.get("QUIVER_CHAOS_SEED", "0")) or (random.SystemRandom().randrange(1, 2**31) if LONG else 1)
STEPS = 40
STEPS_BETWEEN_RESTARTS = 8
PARTITIONS = 2
SECONDS = 30.0
SHORT_MS, LONG_MS = 250, 60_000
UNHEARD_MS = 1_000
"""A request that was sent before a kill was carried out within this time, or not at all."""

Choice = tuple[Message, Standing, Held]

groups = st.sampled_from(["plain", "lanes"])
picks = st.lists(st.integers(0, 999), min_size=1, max_size=6)
visibilities = st.sampled_from([SHORT_MS, SHORT_MS, LONG_MS])


keys = st.lists(st.sampled_from([None, None, "a", "b", "c"]), min_size=1, max_size=8)


def now_ms() -> int:
    return time.time_ns() // 1_000_000


def time_ms(shown: str) -> int:
    return round(datetime.fromisoformat(shown).timestamp() * 1000)


class NotedQueue(HttpQueue):
    """Remembers what was asked and answered: the story of a walk that fails."""

    def __init__(self, broker: BrokerProcess, **settings: Any) -> None:
        self.story: list[str] = []
        super().__init__(broker, **settings)

    def call(self, method: str, path: str, body: Any = None, *, status: int = 200) -> Any:
        answered, answer = self.ask(method, path, body)
        assert answered == status, (method, path, body, answered, answer)
        return answer

    def ask(self, method: str, path: str, body: Any = None) -> tuple[int, Any]:
        began_ms = now_ms()
        answered = self.broker.request(method, path, body, timeout=60)
        self.note(f"{began_ms} {method} {path} {json.dumps(body)} -> {answered[0]} {json.dumps(answered[1])}")
        return answered

    def note(self, line: str) -> None:
        self.story.append(f"{now_ms()} {line}")


class QueueWalk(RuleBasedStateMachine):
    def __init__(self, broker: BrokerProcess, failures: list[BaseException]) -> None:
        super().__init__()
        self.failures = failures
        if failures:  # a walk cannot be repeated exactly: the first failure is the one to look at
            raise failures[0]
        self.broker = broker
        self.queue = NotedQueue(
            broker, partitions=PARTITIONS, max_attempts=MAX_ATTEMPTS, backoff="50ms", backoff_max="100ms"
        )
        self.messages: dict[int, Message] = {}
        self.groups = {
            "plain": GroupModel(f"plain-{self.queue.topic}", self.messages, is_ordered=False),
            "lanes": GroupModel(f"lanes-{self.queue.topic}", self.messages, is_ordered=True),
        }
        self.steps_since_restart = 0

    # what clients do

    @initialize(keys=st.permutations(["a", "a", "a", "b", "b", "c", None, None, None, None]))
    def begin(self, keys: list[str | None]) -> None:
        self.publish(keys, "normal", 0)

    @rule(
        keys=keys,
        priority=st.sampled_from(["normal", "normal", "critical", "low"]),
        delay_ms=st.sampled_from([0, 0, 200, 600_000]),
    )
    def publish(self, keys: list[str | None], priority: str, delay_ms: int) -> None:
        self.steps_since_restart += 1
        numbers = range(len(self.messages), len(self.messages) + len(keys))
        extra = {"delay": f"{delay_ms}ms"} if delay_ms else {}
        before_ms = now_ms()
        results = self.queue.publish_messages(
            [
                {"value": str(number), "key": key, "priority": priority, **extra}
                for number, key in zip(numbers, keys, strict=True)
            ]
        )
        for number, key, result in zip(numbers, keys, results, strict=True):
            self.messages[number] = Message(
                number=number,
                key=key,
                priority=priority,
                partition=result["partition"],
                offset=None if delay_ms else result["offset"],
                due_ms=before_ms + delay_ms,
                delayed_id=result["offset"] if delay_ms else None,
            )

    @rule(
        group=groups,
        consumer=st.sampled_from(["one", "two", "three"]),
        count=st.sampled_from([1, 2, 5, 50]),
        visibility_ms=visibilities,
        level=st.sampled_from([None, None, "critical"]),
    )
    def receive(self, group: str, consumer: str, count: int, visibility_ms: int, level: str | None) -> None:
        self.steps_since_restart += 1
        wanted = level if group == "plain" else None
        for message in self.take(group, count, visibility_ms, consumer=consumer, priority=wanted):
            assert wanted in (None, message.priority)

    @rule(
        group=groups,
        picks=picks,
        together=st.booleans(),
        verb=st.sampled_from(["ack", "ack", "nack", "nack", "nack", "reject", "visibility"]),
        delay_ms=st.sampled_from([0, 0, 100]),
        counted=st.sampled_from([True, True, False]),
        timeout_ms=visibilities,
    )
    def settle_some(
        self, group: str, picks: list[int], together: bool, verb: str, delay_ms: int, counted: bool, timeout_ms: int
    ) -> None:
        chosen = self.choose(group, picks)
        if verb == "nack":
            fields: dict[str, Any] = {"delay": f"{delay_ms}ms", "counted": counted, "reason": "not now"}
        elif verb == "visibility":
            fields, together = {"timeout": f"{timeout_ms}ms"}, True
        else:
            fields = {"reason": "never"} if verb == "reject" else {}
        self.settle(group, verb, chosen, fields, together)

    @rule(group=groups, picks=picks, verb=st.sampled_from(["ack", "nack", "reject", "visibility"]))
    def use_an_old_receipt(self, group: str, picks: list[int], verb: str) -> None:
        """What is settled stays settled, and what went to others stays theirs."""
        self.steps_since_restart += 1
        old = [
            receipt
            for standing in self.groups[group].standings.values()
            for receipt in (standing.receipts if standing.settled != "no" else standing.receipts[:-1])
        ]
        for pick in picks:
            if old:
                assert self.queue.settle(verb, old[pick % len(old)], status=410)["code"] == "lease_lost"

    @rule(pick=st.integers(0, 999))
    def cancel(self, pick: int) -> None:
        self.steps_since_restart += 1
        pending = [one for one in self.messages.values() if one.delayed_id is not None and one.cancelled == "no"]
        if not pending:
            return
        message, before_ms = pending[pick % len(pending)], now_ms()
        status, answer = self.queue.ask("DELETE", self.delayed_path(message))
        assert status in (200, 404, 409), answer
        if status == 200:
            assert message.offset is None, f"{message} was delivered and then cancelled"
            message.cancelled = "yes"
        else:
            assert message.due_ms <= now_ms(), f"{message} cannot be cancelled at {before_ms}: {answer}"

    @rule(group=groups)
    def everything_ready_comes(self, group: str) -> None:
        """Whatever is held meanwhile: one unacked message blocks nothing else."""
        self.steps_since_restart += 1
        expected = self.groups[group].surely_ready(now_ms())
        seen: set[int] = set()

        def has_all() -> bool:
            seen.update(message.number for message in self.take(group, 100, LONG_MS, consumer="eager"))
            return expected <= seen

        def describe() -> str:
            missing = {number: self.groups[group].of(self.messages[number]) for number in expected - seen}
            return f"these never come to {group}: {missing}; {self.queue.depth(self.groups[group].name)}"

        self.repeat_until(has_all, describe)

    @rule()
    def let_short_leases_end(self) -> None:
        self.steps_since_restart += 1
        end_ms = now_ms() + SHORT_MS
        wait_until(lambda: now_ms() > end_ms, SECONDS, "the clock goes on")

    # what happens to the broker

    @precondition(lambda self: self.steps_since_restart >= STEPS_BETWEEN_RESTARTS)
    @rule(kill=st.booleans())
    def restart(self, kill: bool) -> None:
        self.steps_since_restart = 0
        self.queue.note("kill" if kill else "restart")
        self.broker.restart(kill=kill)

    @precondition(lambda self: self.steps_since_restart >= STEPS_BETWEEN_RESTARTS)
    @rule(
        group=groups,
        picks=picks,
        verb=st.sampled_from(["ack", "nack", "reject", "visibility", "receive", "cancel"]),
        counted=st.booleans(),
        pause_ms=st.integers(0, 4),
    )
    def kill_during(self, group: str, picks: list[int], verb: str, counted: bool, pause_ms: int) -> None:
        """The request is sent, and nobody reads the response, if there is one."""
        self.steps_since_restart = 0
        chosen = self.choose(group, picks)
        with self.send_unheard(group, verb, chosen, counted):
            time.sleep(pause_ms / 1000)
            self.broker.kill()
        self.broker.start()
        self.queue.note("started again after a kill")

    def send_unheard(self, group: str, verb: str, chosen: Sequence[Choice], counted: bool) -> socket.socket:
        model = self.groups[group]
        receipts = [held.receipt for _, _, held in chosen]
        if verb == "receive":
            model.receive_cut_off(now_ms() + SHORT_MS + UNHEARD_MS)
            body = {"group": model.name, "consumer": "unheard", "visibility": f"{SHORT_MS}ms", "max_messages": 5}
            return self.send("POST", f"/topics/{self.queue.topic}/receive", body | self.ordering(group))
        if verb == "cancel":
            pending = [one for one in self.messages.values() if one.delayed_id is not None and one.cancelled == "no"]
            if pending:
                pending[0].cancelled = "maybe" if pending[0].offset is None else "no"
                return self.send("DELETE", self.delayed_path(pending[0]), {})
        for message, _, _ in chosen:
            if verb == "ack":
                model.acked(message, cut_off=True)
            elif verb == "reject":
                model.died(message, cut_off=True)
            elif verb == "nack":
                model.given_back(message, is_counted=counted, cut_off=True)
            elif verb == "visibility":
                model.extension_cut_off(message, now_ms() + SHORT_MS, now_ms() + SHORT_MS + UNHEARD_MS)
        fields: dict[str, Any] = {"nack": {"delay": 0, "counted": counted}, "visibility": {"timeout": "250ms"}}
        return self.send("POST", f"/messages/{verb}", {"receipts": receipts, **fields.get(verb, {})})

    def send(self, method: str, path: str, body: dict[str, Any]) -> socket.socket:
        self.queue.note(f"{method} {path} {json.dumps(body)}, and a kill")
        content = json.dumps(body).encode()
        head = f"{method} {path} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
        connection = socket.create_connection(("127.0.0.1", self.broker.http_port))
        connection.sendall(f"{head}content-length: {len(content)}\r\n\r\n".encode() + content)
        return connection

    # how it is done

    def ordering(self, group: str) -> dict[str, str]:
        return {"ordering": "key"} if group == "lanes" else {}

    def delayed_path(self, message: Message) -> str:
        return f"/topics/{self.queue.topic}/delayed/{message.partition}/{message.delayed_id}"

    def take(self, group: str, count: int, visibility_ms: int, **fields: Any) -> list[Message]:
        model = self.groups[group]
        body = {"max_messages": count, "visibility": f"{visibility_ms}ms", **self.ordering(group), **fields}
        answered = self.queue.receive(model.name, **body)
        heard_ms = now_ms()
        taken: list[Message] = []
        for answer in answered:
            before = [message.number for message in taken]
            taken.append(model.delivered(answer, before, heard_ms, time_ms(answer["deadline"])))
        assert len(set(map(id, taken))) == len(taken) <= count
        return taken

    def choose(self, group: str, picks: list[int]) -> list[Choice]:
        self.steps_since_restart += 1
        held = list(self.groups[group].held())
        chosen = sorted({pick % len(held) for pick in picks}) if held else []
        return [held[index] for index in chosen]

    def settle(self, group: str, verb: str, chosen: list[Choice], fields: dict[str, Any], together: bool) -> None:
        """Settles with the receipts the group has last given out, in one request or one each."""
        model = self.groups[group]
        before_ms = now_ms()
        receipts = [held.receipt for _, _, held in chosen]
        if together:
            # Not in their order: the broker sorts what is ordered.
            results = self.queue.settle_many(verb, receipts[::-1], **fields)[::-1]
            for choice, result in zip(chosen, results, strict=True):
                self.note(model, verb, choice, result, fields, before_ms, receipts)
            return
        for choice in chosen:
            if model.of(choice[0]).last is choice[2] and choice[2].ended != "yes":
                body = {"receipt_handle": choice[2].receipt, **fields}
                status, result = self.queue.ask("POST", f"/messages/{verb}", body)
                assert (status == 200) == ("success" in result), result
                self.note(model, verb, choice, {"success": False, **result}, fields, before_ms, receipts[:0])

    def note(
        self,
        model: GroupModel,
        verb: str,
        choice: Choice,
        result: dict[str, Any],
        fields: dict[str, Any],
        before_ms: int,
        same_call: list[str],
    ) -> None:
        message = choice[0]
        if not result["success"]:
            self.note_refusal(model, verb, choice, result, same_call)
        elif verb == "ack":
            model.acked(message)
        elif verb == "reject":
            assert result["dlq_topic"] == f"{self.queue.topic}.dlq"
            model.died(message)
        elif verb == "nack" and choice[2].ended == "yes":
            pass  # given back already, with an earlier message of its key
        elif verb == "nack":
            dies = result["action"] == "dlq"
            not_before_ms = 0 if dies else time_ms(result["next_visible_at"])
            earliest_ms = before_ms + int(fields["delay"].removesuffix("ms"))
            assert not_before_ms == 0 or not_before_ms + CLOCK_MS >= earliest_ms
            model.given_back(message, is_counted=fields["counted"], not_before_ms=not_before_ms, dies=dies)
        else:
            model.extended(message, time_ms(result["new_deadline"]))

    def note_refusal(
        self, model: GroupModel, verb: str, choice: Choice, result: dict[str, Any], same_call: list[str]
    ) -> None:
        message, standing, held = choice
        if result["code"] == "settle_in_order":
            earlier = [
                other
                for other, theirs, their_hold in model.held()
                if other in model.same_key(message) and their_hold.lease == held.lease
                if (other.offset or 0) < (message.offset or 0) and their_hold.receipt not in same_call
            ]
            assert model.is_ordered, f"{verb} of {message} in {model.name}: {result}"
            assert earlier or self.earlier_refused(model, message, held), f"nothing is before {message}: {result}"
            return
        assert result["code"] == "lease_lost", result
        if held.ended != "yes":
            assert not model.must_be_good(message, now_ms()), f"{verb} of {message} is refused: {standing}, {result}"
            model.refused(message)

    def earlier_refused(self, model: GroupModel, message: Message, held: Held) -> bool:
        """Another of the same call was refused, which holds up what comes after it."""
        return any(
            theirs.last is not None and theirs.last.lease == held.lease and theirs.settled == "no"
            for theirs in map(model.of, model.same_key(message))
        )

    # the end

    def teardown(self) -> None:
        error = sys.exc_info()[1]
        try:
            if error is None and not self.failures:
                self.check_end()
        except Exception as found:
            error = found
            raise
        finally:
            if isinstance(error, Exception) and not isinstance(error, HypothesisException) and not self.failures:
                error.add_note("\n".join(self.queue.story))
                self.failures.append(error)

    def check_end(self) -> None:
        for message in self.messages.values():
            if message.delayed_id is not None and message.due_ms > now_ms() + 60_000 and message.cancelled != "yes":
                self.cancel_for_good(message)
        for group in self.groups:
            self.finish(group)
        dead_letters = self.queue.dead_letters() if f"{self.queue.topic}.dlq" in self.topics() else []
        for group, model in self.groups.items():
            mine: dict[int, list[dict[str, Any]]] = {}
            for dead_letter in dead_letters:
                if dead_letter["original"]["group"] == model.name:
                    mine.setdefault(int(dead_letter["value"]), []).append(dead_letter)
            model.check_end(mine, now_ms())
            assert not model.open_numbers(now_ms()), group
        print(self.summary(len(dead_letters)))
        self.queue.call("DELETE", f"/topics/{self.queue.topic}")

    def summary(self, dead_letters: int) -> str:
        standings = [standing for model in self.groups.values() for standing in model.standings.values()]
        deliveries = sum(len(standing.receipts) for standing in standings)
        return f"{len(self.messages)} messages, {deliveries} deliveries, {dead_letters} dead letters"

    def topics(self) -> list[str]:
        return list(self.queue.call("GET", "/topics")["topics"])

    def cancel_for_good(self, message: Message) -> None:
        status, answer = self.queue.ask("DELETE", self.delayed_path(message))
        assert status == 200 or message.cancelled == "maybe", answer
        message.cancelled = "yes"

    def finish(self, group: str) -> None:
        """Acks what is held and what comes, until the group has nothing left."""
        model = self.groups[group]
        self.settle(group, "ack", list(model.held()), {}, True)

        def is_done() -> bool:
            if self.take(group, 100, LONG_MS, consumer="last"):
                self.settle(group, "ack", list(model.held()), {}, True)
            depth = self.queue.depth(model.name)
            left = depth["ready"] + depth["leased"] + depth["retrying"] + depth["delayed"]
            return not left and not model.open_numbers(now_ms())

        def describe() -> str:
            left = {number: model.of(self.messages[number]) for number in model.open_numbers(now_ms())}
            return f"{group} does not end: {left}; {self.queue.depth(model.name)}"

        self.repeat_until(is_done, describe)

    def repeat_until(self, check: Callable[[], bool], describe: Callable[[], str]) -> None:
        end = time.monotonic() + SECONDS
        while not check():
            assert time.monotonic() < end, describe()
            time.sleep(0.01)


@pytest.mark.long
@pytest.mark.timeout(120 + 30 * ROUNDS * WALKS)
def test_queues_keep_their_promises(start_broker: Callable[..., BrokerProcess]) -> None:
    broker = start_broker()
    for number in range(SEED, SEED + ROUNDS):
        print(f"seed {number}")
        walk_from(broker, number)


def walk_from(broker: BrokerProcess, number: int) -> None:
    failures: list[BaseException] = []
    try:
        run_state_machine_as_test(
            seed(number)(lambda: QueueWalk(broker, failures)),
            settings=settings(max_examples=WALKS, stateful_step_count=STEPS, phases=[Phase.generate]),
        )
    except BaseException as problem:
        raise failures[0] if failures else problem from None
