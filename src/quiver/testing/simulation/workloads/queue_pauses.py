"""Queue groups that are paused and resumed, and operators who look at them."""

from collections.abc import Awaitable, Callable, Iterator, Sequence

from quiver.testing.simulation.history import History, Violation, sure_spans
from quiver.testing.simulation.processes import ClientProcess, Program


class QueuePauses:
    """For the groups of one topic. What operators look at must change nothing: the checks of the queue say so."""

    def __init__(self, history: History, topic: str, groups: Sequence[str]) -> None:
        self._history = history
        self._topic, self._groups = topic, groups

    def programs(self) -> dict[str, Program]:
        return {"pauser": self._pause, "looker": self._look}

    async def finish(self, process: ClientProcess) -> None:
        """A pause outlives whoever has asked for it."""
        for group in self._groups:
            resume = process.client.queues.resume(self._topic, group)
            await self._history.request("resume", process.name, resume, group=group)

    async def _pause(self, process: ClientProcess) -> None:
        queues = process.client.queues
        while not process.is_over:
            await process.pause(20.0)
            group = process.chance.choice(self._groups)
            await self._history.request("pause", process.name, queues.pause(self._topic, group), group=group)
            await process.pause(5.0)
            await self._history.request("resume", process.name, queues.resume(self._topic, group), group=group)

    async def _look(self, process: ClientProcess) -> None:
        client, group = process.client, self._groups[0]
        looks: list[Callable[[], Awaitable[object]]] = [
            lambda: client.queues.depths(self._topic),
            lambda: client.dead_letters.list(self._topic, limit=5),
            lambda: client.groups.describe(group),
            lambda: client.groups.list(),
            lambda: client.topics.describe(self._topic),
        ]
        while not process.is_over:
            await self._history.request("look", process.name, process.chance.choice(looks)())
            await process.pause(3.0)

    def check(self) -> Iterator[Violation]:
        """What was published while a group was paused does not come before somebody resumes it."""
        published = {event.details["value"]: event.began for event in self._history.of("publish")}
        for group in self._groups:
            events = [event for event in self._history.of("pause", "resume") if event.details["group"] == group]
            spans = list(sure_spans(events, "pause", "resume"))
            for delivery in self._history.of("deliver"):
                value = delivery.details["value"]
                if delivery.details["group"] == group and any(
                    since < published[value] and delivery.began < until for since, until in spans
                ):
                    yield Violation(f"{value} was delivered in {group} while that was paused", value)
