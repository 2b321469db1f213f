"""Transactions: of messages alone, and of messages with acks, each committed or aborted, by SDK and over HTTP."""

import itertools
import random
from typing import Any

from blackbox.callers.http_caller import Answer, HttpCaller, Unanswered
from blackbox.interleaving.actors.publishers import KEYS, begin_publish
from blackbox.interleaving.actors.queue_workers import HttpSettler
from blackbox.interleaving.history import Event, Outcome
from blackbox.interleaving.scenario import JOBS, ORDERS, Group, World
from quiver.model.errors import QuiverError


class _ChangedMindError(Exception):
    """Aborts a transaction."""


def publish_in_transactions(world: World, actor: str) -> None:
    """With the SDK, to several topics."""
    chance, numbers = world.chance(actor), itertools.count()
    with world.client() as q:
        while not world.is_over(chance, 0.1, 0.5):
            drafts = _drafts(actor, chance, numbers)
            events = _begin(world, actor, drafts)
            try:
                with q.transaction(actor, timeout="20s") as tx:
                    for topic, draft in drafts:
                        tx.publish(topic, **draft)
                    if chance.random() < 0.3:
                        raise _ChangedMindError
            except _ChangedMindError:
                _end(world, events, "refused")
            except QuiverError as error:
                _end(world, events, "unknown", code=error.code)
                if not error.retryable and error.code not in ("transaction_aborted", "producer_fenced"):
                    raise
            else:
                _end(world, events, "ok")


def publish_in_http_transactions(world: World, actor: str) -> None:
    chance, numbers, call = world.chance(actor), itertools.count(), HttpCaller(world.http_port)
    while not world.is_over(chance, 0.1, 0.5):
        drafts = _drafts(actor, chance, numbers)
        events = _begin(world, actor, drafts)
        transaction = HttpTransaction(world, call, name=actor)
        stored = transaction.begin() and all(transaction.publish(topic, draft) for topic, draft in drafts)
        if not stored or chance.random() < 0.3:
            transaction.abort()
            # It was never asked to be committed, so whatever the abort has met, nothing may be seen.
            _end(world, events, "refused")
        else:
            _end(world, events, transaction.commit())


def copy_with_sdk(world: World, actor: str, group: Group) -> None:
    """Takes jobs and publishes a copy of each, with its ack in the same transaction."""
    chance = world.chance(actor)
    while not world.stopping.is_set():
        try:
            with (
                world.client() as q,
                q.work(group.topic, group=group.name) as work,
                world.ended_by([world.stopping], work.stop),
            ):
                for job in work:
                    _copy_job(world, actor, group, q, job, chance)
        except QuiverError as error:
            if not error.retryable and error.code not in ("lease_lost", "transaction_aborted", "producer_fenced"):
                raise
            world.rest()


def _copy_job(world: World, actor: str, group: Group, q: Any, job: Any, chance: random.Random) -> None:
    fields = {"message": job.value.decode(), "partition": job.partition, "offset": job.offset, "topic": group.topic}
    fields |= {"group": group.name, "attempt": job.attempt, "receipt": job.receipt}
    world.recorder.note("deliver", actor, **fields)
    copy = f"{group.name}:{job.value.decode()}"
    events = [
        world.recorder.begin("transaction", actor, group=group.name, messages=[copy]),
        world.recorder.begin("ack", actor, **fields),
    ]
    try:
        with job, q.transaction(timeout="20s") as tx:
            tx.publish(group.copies_to, copy)
            tx.ack(job)
            if not world.quiet.is_set() and chance.random() < 0.1:
                raise _ChangedMindError
    except _ChangedMindError:
        _end(world, events, "refused", code="aborted")
    except QuiverError as error:
        _end(world, events, "unknown", code=error.code)
        raise
    else:
        _end(world, events, "ok")


def copy_over_http(world: World, actor: str, group: Group) -> None:
    chance, call = world.chance(actor), HttpCaller(world.http_port)
    settler = HttpSettler(world, actor, group, call)
    wanted = {"group": group.name, "consumer": actor, "wait": "300ms", "max_messages": 5}
    while not world.stopping.is_set():
        request = world.recorder.begin("receive", actor, group=group.name)
        try:
            answer = call("POST", f"/topics/{group.topic}/receive", wanted)
        except Unanswered:
            world.rest()
            continue
        if answer.status != 200:
            world.rest()
            continue
        world.recorder.end(request)
        deliveries = [settler.delivered(one, request.began, lease=True) for one in answer.body["messages"]]
        if deliveries:
            copy_deliveries(world, actor, group, call, deliveries, chance)


def copy_deliveries(
    world: World, actor: str, group: Group, call: HttpCaller, deliveries: list[Event], chance: random.Random
) -> None:
    """A copy of each message, and all acks, in one transaction."""
    copies = [f"{group.name}:{delivery.message}" for delivery in deliveries]
    acks = [
        world.recorder.begin(
            "ack",
            actor,
            group=one.group,
            topic=one.topic,
            message=one.message,
            partition=one.partition,
            offset=one.offset,
            attempt=one.details["attempt"],
            receipt=one.details["receipt"],
        )
        for one in deliveries
    ]
    events = [world.recorder.begin("transaction", actor, group=group.name, messages=copies), *acks]
    transaction = HttpTransaction(world, call)
    stored = transaction.begin() and all(transaction.publish(group.copies_to, {"value": copy}) for copy in copies)
    if not stored or (not world.quiet.is_set() and chance.random() < 0.1):
        transaction.abort()
        _end(world, events, "refused", code="aborted")
    else:
        _end(world, events, transaction.commit([one.details["receipt"] for one in deliveries]))


class HttpTransaction:
    """One transaction of a producer that is opened for it: a new one, or the next epoch of one with a name."""

    def __init__(self, world: World, call: HttpCaller, name: str | None = None) -> None:
        self._world, self._call, self._name = world, call, name
        self._key: dict[str, Any] = {}

    def begin(self) -> bool:
        named = {} if self._name is None else {"transactional_id": self._name}
        event = self._world.recorder.begin("epoch", self._name or "nobody")
        answer = self._ask("/producers/init", {"transaction_timeout_ms": 20_000, **named})
        if answer is None or answer.status != 200:
            return False
        epoch, producer = answer.body["epoch"], answer.body["producer_id"]
        self._world.recorder.end(event, whose=str(producer), number=epoch)
        self._key = {"producer_id": producer, "epoch": epoch, **named}
        return True

    def publish(self, topic: str, draft: dict[str, Any]) -> bool:
        answer = self._ask("/transactions/publish", {**self._key, "topic": topic, **draft})
        return answer is not None and answer.status == 200

    def commit(self, receipts: list[str] | None = None) -> Outcome:
        """Asked again until it is answered."""
        body = {**self._key, "receipts": receipts} if receipts else dict(self._key)
        is_repeat = False
        while True:
            answer = self._ask("/transactions/commit", body)
            if answer is not None and answer.status == 200:
                return "ok"
            if answer is not None and answer.status < 500:
                # A commit that was asked before its answer was lost may have been the one that counted.
                self.abort()
                return "unknown" if is_repeat else "refused"
            is_repeat = True
            if self._world.rest():
                return "unknown"

    def abort(self) -> None:
        if self._key:
            self._ask("/transactions/abort", self._key)

    def _ask(self, path: str, body: dict[str, Any]) -> Answer | None:
        try:
            return self._call("POST", path, body)
        except Unanswered:
            self._world.rest()
            return None


def _drafts(actor: str, chance: random.Random, numbers: "itertools.count[int]") -> list[tuple[str, dict[str, Any]]]:
    drafts: list[tuple[str, dict[str, Any]]] = []
    for _ in range(chance.randint(1, 4)):
        name = f"{actor}.{next(numbers)}"
        if chance.random() < 0.5:
            drafts.append((ORDERS, {"value": name, "key": chance.choice(KEYS)}))
        else:
            drafts.append((JOBS, {"value": name}))
    return drafts


def _begin(world: World, actor: str, drafts: list[tuple[str, dict[str, Any]]]) -> list[Event]:
    names = [draft["value"] for _, draft in drafts]
    transaction = world.recorder.begin("transaction", actor, messages=names)
    publishes = [begin_publish(world, actor, topic, draft, in_transaction=True) for topic, draft in drafts]
    return [transaction, *publishes]


def _end(world: World, events: list[Event], outcome: Outcome, **details: Any) -> None:
    for event in events:
        world.recorder.end(event, outcome, **details)
