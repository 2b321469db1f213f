"""Recurring schedules that come, go, pause and are run by hand: every firing once, and none is lost."""

import random
from collections import Counter, defaultdict
from collections.abc import Awaitable, Iterator

from quiver.model.times import parse_time_ms
from quiver.model.topic import Durability
from quiver.protocol.schedule_messages import ScheduleInfo
from quiver.testing.simulation.history import Event, History, Violation, sure_spans
from quiver.testing.simulation.processes import ClientProcess, Program
from quiver.testing.simulation.system.clock import ClockRecord

TOPIC = "ticks"
_TIMES = ("@every 500ms", "@every 3s", "*/2 * * * * *")
_QUIET_SECONDS = 8.0
"""All of them fire in this time, and what has fired is in the topic."""
_OPERATORS = 2
Firing = tuple[int, int, bool]
"""When it was due and when it was sent, in milliseconds of the broker's clock, and whether somebody ran it."""


class ScheduleWorkload:
    """`clock` is that of the broker: its wall clock decides when schedules are due."""

    def __init__(self, history: History, chance: random.Random, durability: Durability, clock: ClockRecord) -> None:
        self._history = history
        self._durability = durability
        self._partitions = chance.randint(1, 3)
        self._clock = clock
        self._fired: dict[str, list[Firing]] = defaultdict(list)
        """By name of the schedule: its messages in the topic."""
        self._left: dict[str, ScheduleInfo] = {}
        """What there is at the end, paused."""

    async def prepare(self, process: ClientProcess) -> None:
        await process.client.topics.create(TOPIC, partitions=self._partitions, durability=self._durability)

    def programs(self) -> dict[str, Program]:
        return {f"scheduler-{number}": self._operate for number in range(_OPERATORS)}

    async def finish(self, process: ClientProcess) -> None:
        """Lets what there is fire once more, stops it, and reads."""
        schedules = process.client.schedules
        for found in await schedules.list():
            self._history.saw("left", process.name, schedule=found.name, fired=found.fired_count)
            await schedules.pause(found.name)  # a clock that was ahead may have left a time in the far future
            await self._history.request("resume", process.name, schedules.resume(found.name), schedule=found.name)
        await process.wait(_QUIET_SECONDS)
        for found in await schedules.list():
            await schedules.pause(found.name)
        await process.wait(_QUIET_SECONDS)
        self._left = {found.name: found for found in await schedules.list()}
        self._fired.clear()
        async for message in process.client.read(TOPIC, end="latest"):
            name, due = (message.headers[f"schedule.{each}"].decode() for each in ("name", "time"))
            firing = parse_time_ms(due, "due"), message.timestamp, "schedule.manual" in message.headers
            self._fired[name].append(firing)

    async def _operate(self, process: ClientProcess) -> None:
        chance, number, known = process.chance, 0, list[str]()
        while not process.is_over:
            if len(known) < 2 or chance.random() < 0.2:
                name = f"{process.name.replace('/', '-').replace('#', '-')}-{number}"
                number += 1
                known.append(name)
                cron, key = chance.choice(_TIMES), chance.choice([None, "key"])
                add = process.client.schedules.add(cron, TOPIC, name, name=name, key=key)
                await self._history.request("add", process.name, add, schedule=name)
            else:
                await self._change(process, known)
            await process.pause(5.0)

    async def _change(self, process: ClientProcess, known: list[str]) -> None:
        chance, schedules = process.chance, process.client.schedules
        name = chance.choice(known)
        what = chance.choices(["pause", "resume", "run", "remove"], [3, 3, 3, 1])[0]
        call: Awaitable[object]
        if what == "pause":
            call = schedules.pause(name)
        elif what == "resume":
            call = schedules.resume(name)
        elif what == "run":
            call = schedules.run(name)
        else:
            call = schedules.remove(name)
            known.remove(name)
        await self._history.request(what, process.name, call, schedule=name)

    # checks

    def check(self) -> Iterator[Violation]:
        by_name: dict[str, list[Event]] = defaultdict(list)
        for event in self._history.events:
            by_name[event.details["schedule"]].append(event)
        for name in by_name.keys() | self._fired.keys() | self._left.keys():
            events, fired = by_name[name], self._fired[name]
            yield from self._check_there(name, events)
            yield from self._check_times(name, events, fired)
            yield from self._check_runs(name, events, fired)
            yield from self._check_counted(name, events, fired)

    def _check_there(self, name: str, events: list[Event]) -> Iterator[Violation]:
        added = [event for event in events if event.what == "add"]
        removed = [event for event in events if event.what == "remove"]
        is_added = any(event.outcome == "ok" for event in added)
        if is_added and name not in self._left and not any(event.may_count for event in removed):
            yield Violation(f"schedule {name} was added and is lost", name)
        if any(event.outcome == "ok" for event in removed) and name in self._left:
            yield Violation(f"schedule {name} was removed and is there", name)

    def _check_times(self, name: str, events: list[Event], fired: list[Firing]) -> Iterator[Violation]:
        """A time fires once, not early, and not while the schedule is paused or does not exist.

        A schedule that is resumed computes its next time from the clock, which may have gone back.
        """
        resumed = sum(event.what == "resume" and event.may_count for event in events)
        for due_ms, count in Counter(due_ms for due_ms, _, is_manual in fired if not is_manual).items():
            if count > 1 + resumed:
                yield Violation(f"schedule {name} has fired {count} times for {due_ms}", name)
        for due_ms, sent_ms, _ in fired:
            if sent_ms < due_ms:
                yield Violation(f"schedule {name} has fired {due_ms - sent_ms} ms early", name)
        for since, until in (*sure_spans(events, "pause", "resume"), *sure_spans(events, "remove", "add")):
            for _, sent_ms, is_manual in fired:
                sent = self._clock.read_at(sent_ms)
                if not is_manual and sent and all(since < at < until for at in sent):
                    yield Violation(f"schedule {name} has fired at {sent[0]:.3f}, while it was paused or gone", name)

    def _check_runs(self, name: str, events: list[Event], fired: list[Firing]) -> Iterator[Violation]:
        runs = [event for event in events if event.what == "run"]
        least, most = sum(run.outcome == "ok" for run in runs), sum(run.may_count for run in runs)
        count = sum(is_manual for _, _, is_manual in fired)
        if not least <= count <= most:
            yield Violation(f"schedule {name} was run {least} to {most} times, and has sent {count} messages", name)

    def _check_counted(self, name: str, events: list[Event], fired: list[Firing]) -> Iterator[Violation]:
        """What the broker counts is in the topic, and what is left goes on."""
        left = self._left.get(name)
        if left is None:
            return
        if left.fired_count != len(fired):
            yield Violation(f"schedule {name} has fired {left.fired_count} times, and {len(fired)} are stored", name)
        before = max((event.details["fired"] for event in events if event.what == "left"), default=0)
        if left.fired_count <= before:
            yield Violation(f"schedule {name} does not fire any more", name)
