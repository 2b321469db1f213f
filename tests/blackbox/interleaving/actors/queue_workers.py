"""Workers of queue groups: ack, give back, reject, extend, ack too late, and forget what they hold."""

import random
from typing import Any

from blackbox.callers.http_caller import HttpCaller, Unanswered
from blackbox.interleaving.history import Event
from blackbox.interleaving.scenario import VISIBILITY_SECONDS, Group, World
from quiver.model.errors import QuiverError

ACTIONS = {"ack": 70, "nack": 9, "reject": 3, "extend": 5, "forget": 5, "late": 2}


def choose_action(world: World, chance: random.Random) -> str:
    if world.quiet.is_set():
        return "ack"
    return chance.choices(list(ACTIONS), list(ACTIONS.values()))[0]


class HttpSettler:
    """Settles messages that came over HTTP, whether by a receive or by a poll."""

    def __init__(self, world: World, actor: str, group: Group, call: HttpCaller) -> None:
        self._world, self._actor, self._group, self._call = world, actor, group, call

    def delivered(self, message: dict[str, Any], began: float, **details: Any) -> Event:
        return self._world.recorder.note(
            "deliver",
            self._actor,
            began=began,
            group=self._group.name,
            topic=message["topic"],
            message=message["value"],
            partition=message["partition"],
            offset=message["offset"],
            attempt=message["attempt"],
            receipt=message["receipt_handle"],
            **details,
        )

    def settle(self, verb: str, deliveries: list[Event], **fields: Any) -> None:
        """One request for all of them; tried again until it is answered."""
        if not deliveries:
            return
        what = "extend" if verb == "visibility" else verb
        events = [self._begin(what, delivery) for delivery in deliveries]
        body = {"receipts": [delivery.details["receipt"] for delivery in deliveries], **fields}
        is_repeat = False
        while True:
            try:
                answer = self._call("POST", f"/messages/{verb}", body)
            except Unanswered:
                is_repeat = True
                if self._world.rest():
                    return
                continue
            if answer.status == 503:
                is_repeat = True
                self._world.rest()
                continue
            for event, result in zip(events, answer.body["results"], strict=True):
                self._end(event, result, is_repeat)
            return

    def _begin(self, what: str, delivery: Event) -> Event:
        return self._world.recorder.begin(
            what,
            self._actor,
            group=delivery.group,
            topic=delivery.topic,
            message=delivery.message,
            partition=delivery.partition,
            offset=delivery.offset,
            attempt=delivery.details["attempt"],
            receipt=delivery.details["receipt"],
        )

    def _end(self, event: Event, result: dict[str, Any], is_repeat: bool) -> None:
        if result["success"]:
            shown = {name: result[name] for name in ("action", "committed_offset") if result.get(name) is not None}
            self._world.recorder.end(event, "ok", **shown)
        else:
            doubtful = is_repeat or result["status"] >= 500
            self._world.recorder.end(event, "unknown" if doubtful else "refused", code=result["code"])


def work_over_http(world: World, actor: str, group: Group) -> None:
    chance, call = world.chance(actor), HttpCaller(world.http_port)
    settler = HttpSettler(world, actor, group, call)
    wanted: dict[str, Any] = {"group": group.name, "consumer": actor, "wait": "300ms"}
    if group.is_ordered:
        wanted["ordering"] = "key"
    while not world.stopping.is_set():
        body = {**wanted, "max_messages": chance.choice([1, 3, 10, 50])}
        if not world.quiet.is_set() and chance.random() < 0.02:
            call.lose("POST", f"/topics/{group.topic}/receive", body)
            continue
        request = world.recorder.begin("receive", actor, group=group.name)
        try:
            answer = call("POST", f"/topics/{group.topic}/receive", body)
        except Unanswered:
            world.rest()
            continue
        if answer.status != 200:
            world.recorder.end(request, "refused", code=answer.body["code"])
            world.rest()
            continue
        world.recorder.end(request)
        deliveries = [settler.delivered(one, request.began, lease=True) for one in answer.body["messages"]]
        _settle_all(world, settler, deliveries, chance)


def _settle_all(world: World, settler: HttpSettler, deliveries: list[Event], chance: random.Random) -> None:
    if chance.random() < 0.4 or world.quiet.is_set():
        settler.settle("ack", deliveries)
        return
    for delivery in deliveries:
        action = choose_action(world, chance)
        if action == "nack":
            settler.settle("nack", [delivery], delay=chance.choice(["0s", "100ms"]), reason="not now")
        elif action == "reject":
            settler.settle("reject", [delivery], reason="never")
        elif action == "extend":
            settler.settle("visibility", [delivery], timeout=f"{VISIBILITY_SECONDS + 1}s")
            settler.settle("ack", [delivery])
        elif action == "late":
            world.rest(VISIBILITY_SECONDS + chance.uniform(-0.2, 0.5))
            settler.settle("ack", [delivery])
        elif action == "ack":
            settler.settle("ack", [delivery])


def work_with_sdk(world: World, actor: str, group: Group) -> None:
    chance = world.chance(actor)
    while not world.stopping.is_set():
        try:
            with world.client() as q:
                _work_for_a_while(world, actor, group, q, chance)
        except QuiverError as error:
            if not error.retryable and error.code != "lease_lost":
                raise
            world.rest()


def _work_for_a_while(world: World, actor: str, group: Group, q: Any, chance: random.Random) -> None:
    """As one consumer, which then leaves and gives back what it has not used."""
    is_quiet = world.quiet.is_set()
    left = 1_000_000 if is_quiet else chance.randint(20, 300)
    ends = [world.stopping] if is_quiet else [world.stopping, world.quiet]  # then what it has forgotten comes again
    options = {"ordering": "key"} if group.is_ordered else {}
    with q.work(group.topic, group=group.name, **options) as work, world.ended_by(ends, work.stop):
        for job in work:
            fields = {"message": job.value.decode(), "partition": job.partition, "offset": job.offset}
            fields |= {"group": group.name, "topic": group.topic, "attempt": job.attempt, "receipt": job.receipt}
            world.recorder.note("deliver", actor, **fields)
            action = choose_action(world, chance)
            if action == "extend":
                _decide(world, actor, "extend", fields, job)
            if action in ("nack", "reject"):
                _decide(world, actor, action, fields, job)
            elif action == "forget":
                left = min(left, 5)  # its lease is renewed while this consumer is there
            else:
                _decide(world, actor, "ack", fields, job)
            left -= 1
            if left <= 0:
                return


def _decide(world: World, actor: str, verb: str, fields: dict[str, Any], job: Any) -> None:
    event = world.recorder.begin(verb, actor, **fields)
    try:
        if verb == "nack":
            job.nack(delay="50ms", error="not now")
        else:
            getattr(job, verb)()
    except QuiverError as error:
        world.recorder.end(event, "unknown" if error.retryable else "refused", code=error.code)
    else:
        world.recorder.end(event)
