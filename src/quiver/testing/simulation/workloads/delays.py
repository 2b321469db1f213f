"""Delayed messages, some of them cancelled: never early, once, and never if cancelled."""

import random
from collections import defaultdict
from collections.abc import Iterator

from quiver.model.errors import MessageTimeout
from quiver.model.topic import Durability
from quiver.testing.simulation.history import Event, History, Violation
from quiver.testing.simulation.processes import ClientProcess, Program
from quiver.testing.simulation.system.clock import ClockRecord

TOPIC = "later"
_LONGEST_SECONDS = 15.0
_ROUNDING_SECONDS = 0.002
_MOVING_SECONDS = 5.0
"""What is not pending any more may still be on its way into the topic."""


class DelayWorkload:
    """`clock` is that of the broker: when it is ahead, delayed messages are early for everybody else."""

    def __init__(self, history: History, chance: random.Random, durability: Durability, clock: ClockRecord) -> None:
        self._history = history
        self._durability = durability
        self._partitions = chance.randint(1, 3)
        self._clock = clock
        self._stored: dict[str, list[tuple[int, int]]] = defaultdict(list)
        self._waiting: int | None = None

    async def prepare(self, process: ClientProcess) -> None:
        await process.client.topics.create(TOPIC, partitions=self._partitions, durability=self._durability)

    def programs(self) -> dict[str, Program]:
        return {"delayer-0": self._publish, "delayer-1": self._publish, "delay-reader": self._follow}

    async def finish(self, process: ClientProcess) -> None:
        """Waits until nothing is pending, and reads."""
        for _ in range(20):
            self._waiting = (await process.client.delayed.list(TOPIC)).total
            if not self._waiting:
                break
            await process.pause(10.0)
        await process.pause(_MOVING_SECONDS)
        self._stored.clear()
        async for message in process.client.read(TOPIC, end="latest"):
            self._stored[bytes(message.value or b"").decode()].append((message.partition, message.offset))

    async def _publish(self, process: ClientProcess) -> None:
        number, waiting = 0, list[Event]()
        while not process.is_over:
            value, delay = f"{process.name}.{number}", process.chance.choice([0.05, 1.0, 5.0, _LONGEST_SECONDS])
            number += 1
            partition = process.chance.randrange(self._partitions)
            publish = process.client.publish(TOPIC, value, delay=delay, partition=partition)
            event = await self._history.request("publish", process.name, publish, value=value, delay=delay)
            if event.outcome == "ok":
                waiting.append(event)
            if waiting and process.chance.random() < 0.3:
                chosen = waiting.pop(process.chance.randrange(len(waiting)))
                place = chosen.result
                cancel = process.client.delayed.cancel(TOPIC, place.partition, place.offset)
                await self._history.request("cancel", process.name, cancel, value=chosen.details["value"])
            await process.pause(2.0)

    async def _follow(self, process: ClientProcess) -> None:
        async with process.client.read(TOPIC, timeout=1) as reader:
            while not process.is_over:
                try:
                    async for message in reader:
                        self._history.saw("deliver", process.name, value=bytes(message.value or b"").decode())
                        if process.is_over:
                            return
                except MessageTimeout:
                    continue

    def check(self) -> Iterator[Violation]:
        if self._waiting:
            yield Violation(f"{self._waiting} delayed messages are still pending")
        cancels = {event.details["value"]: event for event in self._history.of("cancel")}
        publishes = {event.details["value"]: event for event in self._history.of("publish")}
        for value, publish in publishes.items():
            found, cancel = self._stored.get(value, []), cancels.get(value)
            if len(found) > 1:
                yield Violation(f"{value} is stored {len(found)} times: {found}", value)
            if found and cancel is not None and cancel.outcome == "ok":
                yield Violation(f"{value} was cancelled and is in the topic", value)
            if not found and publish.outcome == "ok" and (cancel is None or not cancel.may_count):
                yield Violation(f"{value} was delayed and is lost", value)
        for delivery in self._history.of("deliver"):
            early = self._early_seconds(publishes[delivery.details["value"]], delivery)
            if early > _ROUNDING_SECONDS:
                value = delivery.details["value"]
                yield Violation(f"{value} was delivered {early:.3f} s before its time", value)

    def _early_seconds(self, publish: Event, delivery: Event) -> float:
        """The client's clock, which is right, determines when it is due; the broker's clock, when it is delivered."""
        ahead_ms = max(self._clock.ahead_ms(publish.began, delivery.began))
        return float(publish.began + publish.details["delay"] - ahead_ms / 1000 - delivery.began)
