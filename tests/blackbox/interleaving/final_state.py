"""What is there when everything has come to rest, as the broker shows it."""

from dataclasses import dataclass, field
from typing import Any

from blackbox.callers.http_caller import HttpCaller
from blackbox.interleaving.scenario import COPIES, JOBS, ORDERS, Group

PAGE = 10_000


@dataclass(frozen=True, slots=True)
class Stored:
    topic: str
    partition: int
    offset: int
    value: str
    key: str | None = None


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """A dead letter: of which message and group, and why."""

    topic: str
    group: str
    value: str
    reason: str
    attempts: int


@dataclass(slots=True)
class FinalState:
    stored: list[Stored] = field(default_factory=list)
    dead_letters: list[DeadLetter] = field(default_factory=list)
    waiting: set[tuple[str, int, int]] = field(default_factory=set)
    """Delayed messages whose time has not come: topic, partition and id."""


def read_final_state(call: HttpCaller) -> FinalState:
    state = FinalState()
    for topic in (ORDERS, JOBS, COPIES):
        for partition in range(_get(call, f"/topics/{topic}")["partitions"]):
            state.stored += _stored(call, topic, partition)
    for topic in (ORDERS, JOBS):
        state.dead_letters += _dead_letters(call, topic)
        waiting = _get(call, f"/topics/{topic}/delayed?limit={PAGE}")["messages"]
        state.waiting |= {(topic, one["partition"], one["id"]) for one in waiting}
    return state


def unsettled(call: HttpCaller, group: Group) -> str:
    """What the group has left to do, in numbers that change with every step of it; nothing when it is done."""
    if group.kind == "queue":
        answer = call("GET", f"/topics/{group.topic}/queues/{group.name}")
        if answer.status != 200:
            return str(answer)
        counts = [answer.body[what] for what in ("ready", "leased", "retrying")]
        return str(counts) if any(counts) else ""
    committed = _get(call, f"/groups/{group.name}/offsets?topic={group.topic}")["offsets"].get(group.topic, {})
    partitions = range(_get(call, f"/topics/{group.topic}")["partitions"])
    is_done = all(
        not _has_messages(call, group.topic, partition, int(committed.get(str(partition), 0)))
        for partition in partitions
    )
    return "" if is_done else str(committed)


def depth(call: HttpCaller, group: Group) -> str:
    """How the group stands, for people."""
    if group.kind == "queue":
        return str(call("GET", f"/topics/{group.topic}/queues/{group.name}").body)
    return str(call("GET", f"/groups/{group.name}").body) + str(call("GET", f"/groups/{group.name}/offsets").body)


def _has_messages(call: HttpCaller, topic: str, partition: int, offset: int) -> bool:
    """Whether there is a message at an offset or after it."""
    while True:
        page = _get(call, f"/topics/{topic}/partitions/{partition}/messages?offset={offset}&limit=1")
        if page["messages"] or page["next_offset"] == offset:
            return bool(page["messages"])
        offset = page["next_offset"]


def _stored(call: HttpCaller, topic: str, partition: int) -> list[Stored]:
    found: list[Stored] = []
    offset = 0
    while True:
        path = f"/topics/{topic}/partitions/{partition}/messages?offset={offset}&limit={PAGE}"
        page = _get(call, path)
        found += [Stored(topic, partition, one["offset"], one["value"], one.get("key")) for one in page["messages"]]
        if page["next_offset"] == offset:
            return found
        offset = page["next_offset"]


def _dead_letters(call: HttpCaller, topic: str) -> list[DeadLetter]:
    found: list[DeadLetter] = []
    after = ""
    while True:
        page = _get(call, f"/topics/{topic}/dlq?limit={PAGE}" + (f"&after={after}" if after else ""))
        found += [
            DeadLetter(topic, one["group"], one["value"], one["reason"], one["attempts"]) for one in page["messages"]
        ]
        after = page.get("next")
        if not after:
            return found


def _get(call: HttpCaller, path: str) -> Any:
    status, body = call("GET", path)
    assert status == 200, (path, status, body)
    return body
