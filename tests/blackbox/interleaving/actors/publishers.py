"""Publishers: single messages and batches, with keys, priorities, delays, times to live and ids; some cancelled."""

import itertools
import random
from collections.abc import Iterator
from typing import Any

from blackbox.callers.http_caller import HttpCaller, Unanswered
from blackbox.interleaving.history import Event
from blackbox.interleaving.scenario import JOBS, ORDERS, PARTITIONS, World
from quiver.model.errors import QuiverError

KEYS = [f"k{number}" for number in range(8)]
PRIORITIES = ["critical", "high", "normal", "normal", "normal", "low", "background"]
FAR_SECONDS = 3600


class Drafts:
    """Messages to be sent. The value is the message's name, which no other message of the run has."""

    def __init__(self, actor: str, topic: str, chance: random.Random) -> None:
        self._actor, self._topic, self._chance = actor, topic, chance
        self._numbers = itertools.count()

    def next(self) -> dict[str, Any]:
        chance, name = self._chance, f"{self._actor}.{next(self._numbers)}"
        draft: dict[str, Any] = {"value": name}
        if self._topic == ORDERS:
            draft["key"] = chance.choice(KEYS)
        elif chance.random() < 0.3:
            draft["priority"] = chance.choice(PRIORITIES)
        if self._topic == JOBS and chance.random() < 0.05:
            draft["ttl"] = chance.choice([0.2, 1.0])
        if chance.random() < 0.15:
            draft["delay"] = chance.choice([0.1, 0.5, 2.0, FAR_SECONDS])
        if chance.random() < 0.25:
            # Ids are looked for in one partition only, and keys move when partitions are added.
            draft |= {"id": f"id-{name}", "partition": chance.randrange(PARTITIONS[self._topic])}
        return draft

    def many(self) -> list[dict[str, Any]]:
        return [self.next() for _ in range(self._chance.choice([1, 1, 2, 5, 12]))]


def begin_publish(world: World, actor: str, topic: str, draft: dict[str, Any], **details: Any) -> Event:
    details |= {name: draft[name] for name in ("key", "delay", "ttl", "id", "priority") if name in draft}
    return world.recorder.begin("publish", actor, topic=topic, message=draft["value"], **details)


def publish_over_http(world: World, actor: str, topic: str) -> None:
    chance, call = world.chance(actor), HttpCaller(world.http_port)
    drafts = Drafts(actor, topic, chance)
    while not world.is_over(chance, 0.0, 0.1):
        batch = drafts.many()
        events = [begin_publish(world, actor, topic, draft) for draft in batch]
        waiting = list(zip(batch, events, strict=True))
        while waiting:
            try:
                answer = call("POST", f"/topics/{topic}/messages", {"messages": [draft for draft, _ in waiting]})
            except Unanswered:
                answer = None
            if answer is None or "results" not in answer.body:  # lost, or refused because the broker stops
                world.rest()
                # With an id it is safe to publish again; the others may or may not be there.
                waiting = [(draft, event) for draft, event in waiting if "id" in draft]
                continue
            waiting = list(_end_answered(world, waiting, answer.body["results"]))
        _cancel_some(world, actor, events, call, chance)


def _end_answered(
    world: World, waiting: list[tuple[dict[str, Any], Event]], results: list[dict[str, Any]]
) -> Iterator[tuple[dict[str, Any], Event]]:
    """Notes where the messages are; gives those that are worth trying again."""
    for (draft, event), result in zip(waiting, results, strict=True):
        if "error" not in result:
            _stored(world, event, result["partition"], result["offset"], bool(result.get("delayed")))
        elif result["status"] < 500:
            world.recorder.end(event, "refused", code=result["code"])
        elif "id" in draft:
            yield draft, event


def _stored(world: World, event: Event, partition: int, offset: int, is_delayed: bool) -> None:
    if is_delayed:
        world.recorder.end(event, "ok", partition=partition, delayed_id=offset)
        world.delayed.append((event.topic, partition, offset))
    else:
        world.recorder.end(event, "ok", partition=partition, offset=offset)


def _cancel_some(world: World, actor: str, events: list[Event], call: HttpCaller, chance: random.Random) -> None:
    for event in events:
        number = event.details.get("delayed_id")
        if number is None or chance.random() < 0.5:
            continue
        cancel = world.recorder.begin("cancel", actor, topic=event.topic, message=event.message)
        try:
            answer = call("DELETE", f"/topics/{event.topic}/delayed/{event.partition}/{number}")
        except Unanswered:
            world.rest()
            continue
        outcome = "ok" if answer.status == 200 else "refused" if answer.status < 500 else "unknown"
        world.recorder.end(cancel, outcome)


def publish_with_sdk(world: World, actor: str, topic: str) -> None:
    """One message at a time, each waited for."""
    chance = world.chance(actor)
    drafts = Drafts(actor, topic, chance)
    with world.client() as q:
        while not world.is_over(chance, 0.0, 0.1):
            draft = drafts.next()
            event = begin_publish(world, actor, topic, draft)
            try:
                place = q.publish(topic, **draft)
            except QuiverError as error:
                world.recorder.end(event, "unknown" if error.retryable else "refused", code=error.code)
                continue
            _stored(world, event, place.partition, place.offset, place.delayed)


def produce_with_sdk(world: World, actor: str, topic: str) -> None:
    """Batches of an idempotent producer, which goes on through restarts; in order within a partition."""
    chance = world.chance(actor)
    numbers = itertools.count()
    with world.client() as q, q.producer(topic, linger="2ms") as out:
        while not world.is_over(chance, 0.05, 0.3):
            sent = []
            for _ in range(chance.choice([1, 5, 20])):
                draft = {"value": f"{actor}.{next(numbers)}", "key": chance.choice(KEYS)}
                draft["partition"] = chance.randrange(PARTITIONS[topic])
                event = begin_publish(world, actor, topic, draft, in_order=True)
                sent.append((event, out.send(**draft)))
            for event, future in sent:
                place = future.result(60)
                _stored(world, event, place.partition, place.offset, place.delayed)
