"""Lookers: every GET route in a loop, streams, searches, what the SDK shows, offsets and generations of groups."""

import contextlib
import http.client
import json
import random
from typing import Any

from blackbox.callers.get_routes import filled, get_routes
from blackbox.callers.http_caller import Answer, HttpCaller, Unanswered, UnexpectedAnswer
from blackbox.interleaving.scenario import COPIES, JOBS, ORDERS, World
from quiver.model.errors import QuiverError

STATUSES = {200, 307, 404, 409, 503}
"""404 and 409: the topic or group was removed, or is of another kind. 503: the broker is stopping."""


def look_over_http(world: World, actor: str, topics: list[str]) -> None:
    chance, call = world.chance(actor), HttpCaller(world.http_port)
    routes: list[str] = []
    while not world.stopping.wait(chance.uniform(0.0, 0.03)):
        try:
            routes = routes or get_routes(call("GET", "/openapi.json").body)
            path = chance.choice(routes)
            (path,) = filled(path, {name: [value] for name, value in _values(world, topics, chance).items()})
            status, text = call.raw("GET", path + _query(world, path, chance))
        except Unanswered:
            world.rest()
            continue
        if status not in STATUSES:
            raise UnexpectedAnswer(f"GET {path}: {status} {text[:500]!r}")


def _values(world: World, topics: list[str], chance: random.Random) -> dict[str, Any]:
    topic, partition, number = chance.choice([*world.delayed, (chance.choice(topics), 0, 0)])
    if chance.random() < 0.7:
        topic = chance.choice(topics)
    return {
        "topic": topic,
        "group": chance.choice(world.groups).name,
        "partition": partition,
        "id": number,
        "offset": chance.randrange(50),
        "trace": "0af7651916cd43dd8448eb211c80319c",
        "schedule": "yearly",
        "search": "0123456789abcdef",
        "job": "0123456789abcdef",
        "queue": topic,
        "partition_id": f"{chance.randrange(1, 9):x}",
        "transaction": "nobody",
        "name": "nobody",
    }


def _query(world: World, path: str, chance: random.Random) -> str:
    if path.endswith("/messages") and "/partitions/" not in path:
        return "?partition=0" + chance.choice(["", "&isolation=read_uncommitted", "&limit=1"])
    if "/delayed/" in path and path.count("/") == 4:
        return "?partition=0"
    if path.endswith("/assignment"):
        return f"?member_id={chance.choice([*world.members, 'nobody'])}"
    return ""


def look_at_streams(world: World, actor: str, topics: list[str]) -> None:
    """The overview and tails of topics, some lines each; a topic may be deleted and the broker killed meanwhile."""
    chance = world.chance(actor)
    while not world.stopping.wait(chance.uniform(0.0, 0.1)):
        tail = f"/topics/{chance.choice(topics)}/tail?rate={chance.choice([1, 100, 10_000])}"
        path = chance.choice(["/overview/stream", tail, f"{tail}&where=len(text)+>+3"])
        with contextlib.closing(http.client.HTTPConnection("127.0.0.1", world.http_port, timeout=30)) as connection:
            try:
                connection.request("GET", path)
                answer = connection.getresponse()
                lines = [answer.readline() for _ in range(chance.randrange(1, 30)) if not world.stopping.is_set()]
            except (OSError, http.client.HTTPException):
                world.rest()
                continue
        if answer.status not in STATUSES:
            raise UnexpectedAnswer(f"GET {path}: {answer.status} {lines[:1]!r}")
        for line in lines:
            if answer.status == 200 and line.endswith(b"\n"):
                json.loads(line)


def search_topics(world: World, actor: str, topics: list[str]) -> None:
    """Searches as jobs: most run to their end, some are cancelled, some lose their topic or their broker."""
    chance, call = world.chance(actor), HttpCaller(world.http_port)
    while not world.stopping.wait(chance.uniform(0.0, 0.2)):
        where = chance.choice(["true", "value.n > 3", '"k1" in key', "matches(text, 'x+$')"])
        try:
            begun = call("POST", f"/topics/{chance.choice(topics)}/search", {"where": where, "limit": 50})
            if begun.status not in (200, 202):
                _check_refusal(begun)
                continue
            path = f"/search/{begun.body['id']}"
            if chance.random() < 0.2:
                call("DELETE", path)
            answer = call("GET", f"{path}?wait=5s")
        except Unanswered:
            world.rest()
            continue
        if answer.status == 200 and answer.body["state"] == "failed" and "deleted" not in answer.body["error"]:
            raise UnexpectedAnswer(f"search {where}: {answer.body}")


def _check_refusal(answer: Answer) -> None:
    """404: the topic is gone. 503: 16 searches run already, or the broker is stopping."""
    if answer.status not in (404, 503):
        raise UnexpectedAnswer(f"a search was refused: {answer}")


def look_at_positions(world: World, actor: str) -> None:
    """What groups show as committed, for the check that it never goes back by itself."""
    chance, call = world.chance(actor), HttpCaller(world.http_port)
    while not world.stopping.wait(chance.uniform(0.0, 0.05)):
        group = chance.choice(world.groups)
        look = world.recorder.begin("look", actor, group=group.name)
        try:
            answer = call("GET", f"/groups/{group.name}/offsets?topic={group.topic}")
        except Unanswered:
            world.rest()
            continue
        if answer.status != 200:
            continue
        world.recorder.end(look)
        for partition, offset in answer.body["offsets"].get(group.topic, {}).items():
            world.recorder.note(
                "committed",
                actor,
                began=look.began,
                group=group.name,
                topic=group.topic,
                partition=int(partition),
                offset=offset,
            )


def look_at_generations(world: World, actor: str) -> None:
    chance, call = world.chance(actor), HttpCaller(world.http_port)
    while not world.stopping.wait(chance.uniform(0.0, 0.2)):
        look = world.recorder.begin("generation", actor)
        group = chance.choice([group for group in world.groups if group.kind != "queue"]).name
        try:
            answer = call("GET", f"/groups/{group}")
        except Unanswered:
            world.rest()
            continue
        if answer.status == 200:
            world.recorder.end(look, whose=group, number=answer.body["generation"])


def look_with_sdk(world: World, actor: str) -> None:
    chance = world.chance(actor)
    with world.client() as q:
        looks = [
            lambda: q.topics.list(),
            lambda: q.topics.describe(chance.choice([ORDERS, JOBS, COPIES])),
            lambda: q.groups.list(),
            lambda: q.groups.describe(chance.choice(world.groups).name),
            lambda: q.queues.depths(chance.choice([ORDERS, JOBS])),
            lambda: q.delayed.list(chance.choice([ORDERS, JOBS])),
            lambda: q.dead_letters.list(chance.choice([ORDERS, JOBS])),
            lambda: q.transactions.list(),
            lambda: q.schedules.list(),
            lambda: q.offsets(chance.choice([ORDERS, JOBS])),
        ]
        while not world.stopping.wait(chance.uniform(0.0, 0.1)):
            try:
                chance.choice(looks)()
            except QuiverError as error:
                if not error.retryable and error.code not in ("group_not_found", "closed"):
                    raise
