"""Members of groups that poll over HTTP: they ack, give back, reject, commit, leave, vanish, and reset the group."""

import random
import threading
from typing import Any

from blackbox.callers.http_caller import Answer, HttpCaller, Unanswered
from blackbox.interleaving.actors.queue_workers import HttpSettler, choose_action
from blackbox.interleaving.actors.resets import reset
from blackbox.interleaving.actors.transactions import copy_deliveries
from blackbox.interleaving.history import Event
from blackbox.interleaving.scenario import SESSION, VISIBILITY_SECONDS, Group, World


def poll(world: World, actor: str, group: Group, *, is_short: bool, resets: bool) -> None:
    """One membership after the other, short or not; with `resets` the group is sent back between two of them."""
    chance = world.chance(actor)
    while not world.stopping.is_set():
        call = HttpCaller(world.http_port)
        member = PollMember(world, actor, group, call, chance, is_short=is_short)
        try:
            if not member.join():
                world.rest(0.2)
                continue
            member.take_part()
            if resets and not world.quiet.is_set():
                reset(world, actor, group, call, chance)
        except Unanswered:
            world.rest()


class PollMember:
    def __init__(
        self, world: World, actor: str, group: Group, call: HttpCaller, chance: random.Random, *, is_short: bool
    ) -> None:
        self._world, self._actor, self._group, self._call, self._chance = world, actor, group, call, chance
        self._is_short = is_short
        """Leaves soon, so that the group often has no members."""
        self._settler = HttpSettler(world, actor, group, self._call)
        self._commits = chance.random() < 0.5
        self._id = ""

    def join(self) -> bool:
        body = {"client_id": self._actor, "topics": [self._group.topic], "session_timeout": SESSION}
        answer = self._ask("POST", "join", body)
        if answer.status != 200:
            return False
        self._id = answer.body["member_id"]
        self._world.members.append(self._id)
        return True

    def take_part(self) -> None:
        for _ in range(self._chance.randint(5, 20 if self._is_short else 60)):
            while self._world.quiet.is_set() and not self._world.stopping.is_set():
                if not self._poll_once():
                    return
            if self._world.stopping.is_set() or not self._poll_once():
                break
        vanishes = not self._is_short and self._chance.random() < 0.2  # and its session ends
        if self._world.stopping.is_set() or not vanishes:
            self._ask("POST", "leave", {"member_id": self._id})

    def _poll_once(self) -> bool:
        """Whether it still is a member."""
        count = self._chance.choice([1, 5, 20])
        path = f"poll?member_id={self._id}&timeout=500ms&max_messages={count}"
        if not self._world.quiet.is_set() and self._chance.random() < 0.03:
            self._call.lose("GET", f"/groups/{self._group.name}/{path}")
            return True
        request = self._world.recorder.begin("poll", self._actor, group=self._group.name)
        answer = self._ask("GET", path)
        if answer.status != 200:
            self._world.recorder.end(request, "refused", code=answer.body["code"])
            self._world.rest()
            return answer.status >= 500
        self._world.recorder.end(request)
        deliveries = [
            self._settler.delivered(one, request.began, membership=self._id) for one in answer.body["messages"]
        ]
        if self._group.copies_to:
            if deliveries:
                copy_deliveries(self._world, self._actor, self._group, self._call, deliveries, self._chance)
            return True
        if self._commits and not self._world.quiet.is_set():
            return self._commit_some(answer.body["offsets"], deliveries)
        if self._world.quiet.is_set() or self._chance.random() < 0.3:
            self._settler.settle("ack", deliveries)
        else:
            self._settle_each(deliveries)
        return True

    def _settle_each(self, deliveries: list[Event]) -> None:
        self._chance.shuffle(deliveries)
        for delivery in deliveries:
            action = choose_action(self._world, self._chance)
            if action == "nack":
                self._settler.settle("nack", [delivery], delay="50ms", reason="not now")
            elif action == "reject":
                self._settler.settle("reject", [delivery], reason="never")
            elif action == "extend":
                self._settler.settle("visibility", [delivery], timeout=f"{VISIBILITY_SECONDS + 1}s")
                self._settler.settle("ack", [delivery])
            elif action != "forget":
                self._settler.settle("ack", [delivery])

    def _commit_some(self, offsets: dict[str, dict[str, int]], deliveries: list[Event]) -> bool:
        how = self._chance.choices(["commit", "both", "neither"], [6, 3, 1])[0]
        if how == "both":
            return self._commit_beside_acks(offsets, deliveries)
        return self._commit(offsets) if how == "commit" else True

    def _commit_beside_acks(self, offsets: dict[str, dict[str, int]], deliveries: list[Event]) -> bool:
        """Both at once: what was answered of either holds."""
        beside = HttpSettler(self._world, self._actor, self._group, HttpCaller(self._world.http_port))
        thread = threading.Thread(target=beside.settle, args=("ack", deliveries[: len(deliveries) // 2]))
        thread.start()
        try:
            return self._commit(offsets)
        finally:
            thread.join()

    def _commit(self, offsets: dict[str, dict[str, int]]) -> bool:
        events = [
            self._world.recorder.begin(
                "commit", self._actor, group=self._group.name, topic=topic, partition=int(partition), offset=offset
            )
            for topic, partitions in offsets.items()
            for partition, offset in partitions.items()
        ]
        if not events:
            return True
        answer = self._ask("POST", "offsets", {"member_id": self._id, "offsets": offsets})
        outcome: Any = "ok" if answer.status == 200 else "refused" if answer.status < 500 else "unknown"
        for event in events:
            self._world.recorder.end(event, outcome)
        return answer.status in (200, 503)

    def _ask(self, method: str, what: str, body: Any = None) -> Answer:
        return self._call(method, f"/groups/{self._group.name}/{what}", body)
