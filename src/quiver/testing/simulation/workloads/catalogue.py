"""Topics that several clients create, grow, describe and delete concurrently: as if requests came one by one."""

import random
from collections.abc import Awaitable, Iterator

from quiver.testing.simulation.history import Event, History, Violation
from quiver.testing.simulation.processes import ClientProcess, Program

_NAMES = ("first", "second")
_ACTORS = 3


class CatalogueWorkload:
    def __init__(self, history: History, chance: random.Random) -> None:
        self._history = history

    async def prepare(self, process: ClientProcess) -> None:
        pass

    def programs(self) -> dict[str, Program]:
        return {f"operator-{number}": self._operate for number in range(_ACTORS)}

    async def finish(self, process: ClientProcess) -> None:
        for name in _NAMES:
            await self._do(process, "describe", name, 0)

    async def _operate(self, process: ClientProcess) -> None:
        chance = process.chance
        while not process.is_over:
            what = chance.choices(["create", "delete", "grow", "describe"], [4, 2, 3, 4])[0]
            await self._do(process, what, chance.choice(_NAMES), chance.randint(1, 12))
            await process.pause(8.0)

    async def _do(self, process: ClientProcess, what: str, name: str, count: int) -> None:
        topics = process.client.topics
        call: Awaitable[object]
        if what == "create":
            call = topics.create(name, partitions=count)
        elif what == "grow":
            call = topics.add_partitions(name, count)
        elif what == "delete":
            call = topics.delete(name)
        else:
            call = topics.describe(name)
        await self._history.request(what, process.name, call, topic=name, count=count)

    def check(self) -> Iterator[Violation]:
        for name in _NAMES:
            events = [event for event in self._history.events if event.details.get("topic") == name]
            if not _is_linearizable(events):
                yield Violation(f"no order of the requests for topic {name} explains their responses", name)


def _is_linearizable(events: list[Event]) -> bool:
    """Whether there is an order, with every request at some moment between its begin and its end, that gives the
    answers. A request without an answer may come at any time after its begin, or never."""
    certain = sum(_is_certain(event) for event in events)
    todo: list[tuple[frozenset[int], int | None]] = [(frozenset(), None)]
    seen = set(todo)
    while todo:
        done, state = todo.pop()
        if sum(_is_certain(events[number]) for number in done) == certain:
            return True
        left = [number for number in range(len(events)) if number not in done]
        first_end = min(events[number].ended for number in left if _is_certain(events[number]))
        for number in left:
            if events[number].began > first_end:
                continue
            possible, following = _apply(events[number], state)
            step = done | {number}, following
            if possible and step not in seen:
                seen.add(step)
                todo.append(step)
    return False


def _is_certain(event: Event) -> bool:
    return event.outcome != "unknown" and _meaning(event) != "unknown"


def _meaning(event: Event) -> str:
    """ok, the name of an error that the catalogue itself gives, or unknown."""
    if event.outcome != "refused":
        return event.outcome
    name = event.error.partition(":")[0]
    known = {"create": ("TopicExists",), "delete": ("TopicNotFound",), "describe": ("TopicNotFound",)}
    # `create` and `grow` describe the topic at their end, when somebody else may have deleted it.
    return name if name in known.get(event.what, ()) else "unknown"


def _apply(event: Event, state: int | None) -> tuple[bool, int | None]:
    """Whether the request can come now, and the number of partitions after it; None is no topic."""
    meaning, count = _meaning(event), event.details["count"]
    if meaning == "TopicExists":
        return state is not None, state
    if meaning == "TopicNotFound":
        return state is None, state
    if event.what == "create":
        return state is None, count
    if event.what == "delete":
        return state is not None, None
    if event.what == "grow":
        return state is not None and state <= count, count
    return meaning == "ok" and state == len(event.result.offsets), state
