"""Resets: a group goes back to an earlier place, never on, so that everything behind it must come again."""

import random
from typing import Any

from blackbox.callers.http_caller import HttpCaller, Unanswered
from blackbox.interleaving.scenario import Group, World


def reset(world: World, actor: str, group: Group, call: HttpCaller, chance: random.Random) -> None:
    """Is refused while somebody is a member or waits for messages, and tried again for a while."""
    for _ in range(chance.randint(1, 10)):
        world.rest(chance.uniform(0.0, 0.1))
        if _reset_once(world, actor, group, call, chance):
            return


def reset_now_and_then(world: World, actor: str, group: Group) -> None:
    chance, call = world.chance(actor), HttpCaller(world.http_port)
    while not world.quiet.wait(chance.uniform(1, 4)):
        try:
            reset(world, actor, group, call, chance)
        except Unanswered:
            world.rest()


def _reset_once(world: World, actor: str, group: Group, call: HttpCaller, chance: random.Random) -> bool:
    to: dict[str, Any] = chance.choice([{"to": "earliest"}, {"to": "shift", "shift": -20}])
    event = world.recorder.begin("reset", actor, group=group.name, topic=group.topic)
    answer = call("POST", f"/groups/{group.name}/offsets/reset", {"topic": group.topic, **to})
    if answer.status == 200:
        world.recorder.end(event, "ok", **to, moved=answer.body["partitions"])
    else:
        world.recorder.end(event, "refused" if answer.status < 500 else "unknown", code=answer.body["code"])
    return answer.status == 200
