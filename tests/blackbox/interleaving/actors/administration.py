"""Administration meanwhile: settings change, partitions are added, other topics are made, compacted and removed."""

import random
from typing import Any

from blackbox.callers.http_caller import Answer, HttpCaller, Unanswered, UnexpectedAnswer
from blackbox.interleaving.scenario import COPIES, GROUPS, JOBS, ORDERS, PARTITIONS, World

SIDE_TOPICS = ["side-0", "side-1"]
MOST_PARTITIONS = 8


def change_setting(world: World, actor: str, path: str, setting: str, values: list[Any]) -> None:
    """Nobody else changes this setting, so what was answered is what is shown, whatever else changes beside it."""
    chance, call = world.chance(actor), HttpCaller(world.http_port)
    while not world.quiet.wait(chance.uniform(0.05, 0.3)):
        value = chance.choice(values)
        event = world.recorder.begin("alter", actor, setting=setting, path=path, value=value)
        try:
            answer = call("PATCH", path, {setting: value})
            if answer.status != 200:
                code = answer.body["code"]
                world.recorder.end(event, "unknown" if code == "worker_unavailable" else "refused", code=code)
                continue
            world.recorder.end(event)
            shown = call("GET", path)
        except Unanswered:
            world.rest()
            continue
        if shown.status == 200:
            now = shown.body["config"].get(setting)
            world.recorder.note("shown", actor, setting=setting, path=path, value=value, shown=now)


def add_partitions(world: World, actor: str) -> None:
    """To the topics of the load, a few times."""
    chance, call = world.chance(actor), HttpCaller(world.http_port)
    counts = dict(PARTITIONS)
    while not world.quiet.wait(chance.uniform(5, 15)):
        topic = chance.choice([ORDERS, JOBS, COPIES])
        if counts[topic] < MOST_PARTITIONS:
            counts[topic] += 1
            _ask(world, call, "POST", f"/admin/topics/{topic}/partitions", {"count": counts[topic]})


def disturb_other_topics(world: World, actor: str) -> None:
    """Topics beside those of the load, with messages and leases of their own, that come and go."""
    chance, call = world.chance(actor), HttpCaller(world.http_port)
    while not world.quiet.wait(chance.uniform(0.0, 0.1)):
        topic = chance.choice(SIDE_TOPICS)
        method, path, body = _change(topic, chance)
        answer = _ask(world, call, method, path, body)
        if answer is not None and answer.status not in (200, 201, 202, 400, 404, 409, 410, 503):
            raise UnexpectedAnswer(f"{method} {path} {body}: {answer}")
        for message in (answer.body or {}).get("messages", [])[:2] if answer and path.endswith("/receive") else ():
            _ask(world, call, "POST", "/messages/reject", {"receipt_handle": message["receipt_handle"]})


def _change(topic: str, chance: random.Random) -> tuple[str, str, Any]:
    messages = [{"key": f"k{chance.randrange(3)}", "value": "x" * chance.randrange(200)} for _ in range(5)]
    publish = ("POST", f"/topics/{topic}/messages", {"messages": messages})
    delayed = ("POST", f"/topics/{topic}/messages", {"messages": [{"value": "later", "delay": "1s"}]})
    at = f"/topics/{topic}/delayed/{chance.randrange(2)}/{chance.randrange(20)}"
    queue = f"/topics/{topic}/queues/side"
    receive = ("POST", f"/topics/{topic}/receive", {"group": "side", "max_messages": 10, "visibility": "1s"})
    return chance.choice(
        [
            ("POST", "/topics", {"name": topic, "partitions": 2, "cleanup": "compact"}),
            publish,
            publish,
            publish,
            delayed,
            receive,
            receive,
            ("PATCH", at, {"delay": chance.choice([0, "1s", "1h"])}),
            ("POST", f"{queue}/{chance.choice(['pause', 'resume', 'resume'])}", {}),
            ("POST", f"/topics/{topic}/dlq/redrive", {"rate": chance.choice([5, 1000])}),
            ("DELETE", f"/jobs/{chance.choice('0123')}", None),
            ("POST", f"/admin/topics/{topic}/compact", {}),
            ("POST", f"/topics/{topic}/purge", {}),
            ("PATCH", f"/topics/{topic}", {"retention": chance.choice(["1h", "7d"])}),
            ("POST", f"/admin/topics/{topic}/partitions", {"count": chance.randint(2, 6)}),
            ("DELETE", f"/topics/{topic}", None),
        ]
    )


def _ask(world: World, call: HttpCaller, method: str, path: str, body: Any) -> Answer | None:
    event = world.recorder.begin("administer", call.__class__.__name__, request=f"{method} {path}")
    try:
        answer = call(method, path, body)
    except Unanswered:
        world.rest()
        return None
    world.recorder.end(event, "ok" if answer.status < 300 else "refused", status=answer.status)
    return answer


SETTINGS_IN_MOTION = [
    (f"/topics/{ORDERS}", "max_unacked", [200, 500, 1000]),
    (f"/topics/{ORDERS}", "max_message_bytes", [65536, 131072]),
    (f"/groups/{GROUPS[0].name}", "max_unacked", [150, 250]),
    (f"/groups/{GROUPS[0].name}", "max_attempts", [6]),
]
