"""Dead letters that are sent back or removed: each once, so a message is always in one place."""

import random
from collections import defaultdict
from collections.abc import Iterator

from quiver.client._async.work.job import AsyncJob
from quiver.model.errors import MessageTimeout
from quiver.model.topic import Durability
from quiver.testing.simulation.history import Event, History, Violation
from quiver.testing.simulation.processes import ClientProcess, Program

TOPIC, GROUP = "returns", "menders"
_QUIET_SECONDS = 10.0
_WORKERS = 2
_OPERATORS = 2
Place = tuple[int, int]
"""Partition and offset."""


class RedriveWorkload:
    """A message that is redriven is stored again. Every copy of it is acked, or becomes one dead letter, which is
    redriven or purged."""

    def __init__(self, history: History, chance: random.Random, durability: Durability) -> None:
        self._history = history
        self._durability = durability
        self._partitions = chance.randint(1, 3)
        self._copies: dict[str, list[Place]] = defaultdict(list)
        """By value: where it is stored."""

    async def prepare(self, process: ClientProcess) -> None:
        await process.client.topics.create(
            TOPIC,
            partitions=self._partitions,
            durability=self._durability,
            max_attempts=2,
            visibility=3,
            backoff=0.2,
            backoff_max=1,
        )

    def programs(self) -> dict[str, Program]:
        found: dict[str, Program] = {"giver": self._publish}
        found |= {f"mender-{number}": self._work for number in range(_WORKERS)}
        return found | {f"redriver-{number}": self._operate for number in range(_OPERATORS)}

    async def finish(self, process: ClientProcess) -> None:
        """Sends back what there is, and acks everything."""
        while True:
            await self._work(process)
            taken = await process.client.dead_letters.redrive(TOPIC)
            if not taken.dead_letter_count:
                break
        self._copies.clear()
        async for message in process.client.read(TOPIC, end="latest"):
            self._copies[bytes(message.value or b"").decode()].append((message.partition, message.offset))

    async def _publish(self, process: ClientProcess) -> None:
        number = 0
        while not process.is_over:
            value = f"{process.name}.{number}"
            number += 1
            publish = process.client.publish(TOPIC, value, key=f"{process.chance.randrange(6)}")
            await self._history.request("publish", process.name, publish, value=value)
            await process.pause(2.0)

    async def _work(self, process: ClientProcess) -> None:
        """Until all is over, or nothing comes any more."""
        wait = _QUIET_SECONDS if process.is_over else 1.0
        async with process.client.work(TOPIC, group=GROUP, timeout=wait) as jobs:
            while wait == _QUIET_SECONDS or not process.is_over:
                try:
                    job = await jobs.next_job()
                except MessageTimeout:
                    if process.is_over:
                        return
                    continue
                assert job is not None, "nobody stops it"
                await self._settle(process, job)

    async def _settle(self, process: ClientProcess, job: AsyncJob) -> None:
        chance = process.chance
        place = {"value": bytes(job.value or b"").decode(), "place": (job.partition, job.offset)}
        what = "ack" if process.is_over else chance.choices(["ack", "reject", "nack"], [2, 3, 3])[0]
        call = job.ack() if what == "ack" else job.reject("broken") if what == "reject" else job.nack(0.1)
        await self._history.request(what, process.name, call, **place)
        await process.pause(0.1)

    async def _operate(self, process: ClientProcess) -> None:
        chance, dead_letters = process.chance, process.client.dead_letters
        while not process.is_over:
            await process.pause(6.0)
            what = chance.choice(["all", "some", "these", "purge"])
            if what in ("all", "some"):
                redrive = dead_letters.redrive(TOPIC, limit=None if what == "all" else chance.randint(1, 3))
                await self._history.request("redrive", process.name, redrive)
                continue
            take = dead_letters.purge if what == "purge" else dead_letters.redrive
            page = await dead_letters.list(TOPIC, limit=20)
            for dead_letter in chance.sample(list(page), min(len(page), 2)):
                about = {"value": bytes(dead_letter.value or b"").decode(), "id": str(dead_letter.id)}
                await self._history.request(what, process.name, take(TOPIC, ids=[dead_letter]), **about)

    # checks

    def check(self) -> Iterator[Violation]:
        by_value: dict[str, list[Event]] = defaultdict(list)
        for event in self._history.events:
            if "value" in event.details:
                by_value[event.details["value"]].append(event)
        for value, events in by_value.items():
            yield from self._check_taken_once(value, events)
            copies = self._copies.get(value, [])
            if copies:
                yield from self._check_copies(value, copies, events)
            elif any(event.what == "publish" and event.outcome == "ok" for event in events):
                yield Violation(f"{value} was acked and is not stored", value)

    def _check_taken_once(self, value: str, events: list[Event]) -> Iterator[Violation]:
        by_id: dict[str, int] = defaultdict(int)
        for event in events:
            if event.what in ("these", "purge"):
                by_id[event.details["id"]] += _taken(event)
        for id, count in by_id.items():
            if count > 1:
                yield Violation(f"dead letter {id} of {value} was redriven or purged {count} times", value)

    def _check_copies(self, value: str, copies: list[Place], events: list[Event]) -> Iterator[Violation]:
        """All but the first copy were dead letters once, and so was everything that was purged."""
        purges = [event for event in events if event.what == "purge"]
        least = len(copies) - 1 + sum(map(_taken, purges))
        most = least + sum(not _taken(purge) and self._is_unsure(purge) for purge in purges)
        may_be_acked, is_acked = set[Place](), set[Place]()
        for event in events:
            if event.what == "ack" and event.may_count:
                may_be_acked.add(event.details["place"])
                if not self._is_unsure(event):
                    is_acked.add(event.details["place"])
        fewest, highest = len(set(copies) - may_be_acked), len(set(copies) - is_acked)
        if least > highest:
            yield Violation(f"{value} died {highest} times at most, and was sent back or purged {least} times", value)
        if most < fewest:
            yield Violation(
                f"{value} is lost: it died {fewest} times, and was sent back or purged {most} times", value
            )

    def _is_unsure(self, event: Event) -> bool:
        """Its request may have been sent twice, so that its result may be that of the second."""
        return event.outcome == "unknown" or self._history.was_disturbed(event)


def _taken(event: Event) -> int:
    """How many dead letters it has surely taken."""
    return int(event.result.dead_letter_count) if event.outcome == "ok" else 0
