"""Idempotent producers and readers of one topic: acked once, one order for all, nothing lost."""

import random
from collections import Counter
from collections.abc import Iterator
from functools import partial
from itertools import zip_longest
from typing import Any

from quiver.client._async.produce.producer import AsyncProducer
from quiver.client._async.produce.send_future import AsyncSendFuture
from quiver.client._async.search.search import AsyncSearch
from quiver.model.errors import MessageTimeout, QuiverError
from quiver.model.topic import Durability
from quiver.testing.simulation.history import Event, History, Violation
from quiver.testing.simulation.processes import ClientProcess, Program

TOPIC = "log"
_FOUND_AT_MOST = 1_000
_LOOSE = "loose"
"""A producer that waits for the leader alone: what it publishes may be lost, or come twice."""
Stored = tuple[int, int, str]
"""Partition, offset and value."""


class LogWorkload:
    def __init__(self, history: History, chance: random.Random, durability: Durability, *, replicas: int = 1) -> None:
        self._history = history
        self._partitions = chance.randint(1, 4)
        self._producers = chance.randint(1, 3)
        self._is_replicated = replicas > 1
        self._settings: dict[str, Any] = {}
        if self._is_replicated and chance.random() < 0.2:
            self._settings["min_isr"] = replicas
        self._durability = durability
        self._seen: dict[str, list[Stored]] = {}
        """What each reader got, in its order."""
        self._stored: list[Stored] = []

    async def prepare(self, process: ClientProcess) -> None:
        await process.client.topics.create(
            TOPIC, partitions=self._partitions, durability=self._durability, segment_bytes="64KiB", **self._settings
        )

    def programs(self) -> dict[str, Program]:
        found: dict[str, Program] = {f"producer-{number}": self._produce for number in range(self._producers)}
        if self._is_replicated:
            found[_LOOSE] = self._produce_loosely
        return {**found, "reader-0": self._follow, "reader-1": self._follow, "searcher": self._search}

    async def finish(self, process: ClientProcess) -> None:
        self._stored.clear()
        async for message in process.client.read(TOPIC, end="latest"):
            self._stored.append((message.partition, message.offset, bytes(message.value or b"").decode()))

    async def _produce(self, process: ClientProcess) -> None:
        chance, number = process.chance, 0
        linger = chance.choice([0.0, 0.002, 0.02])
        async with process.client.producer(TOPIC, linger=linger, delivery_timeout=20) as out:
            while not process.is_over:
                for _ in range(chance.choice([1, 1, 3, 20])):
                    await self._send(process, out, f"{process.name}.{number}")
                    number += 1
                await process.pause(chance.choice([0.01, 0.5, 3.0]))

    async def _produce_loosely(self, process: ClientProcess) -> None:
        number = 0
        while not process.is_over:
            publish = process.client.publish(TOPIC, f"{process.name}.{number}", acks="leader")
            await self._history.request("publish loosely", process.name, publish)
            number += 1
            await process.pause(0.5)

    async def _send(self, process: ClientProcess, out: AsyncProducer, value: str) -> None:
        event = self._history.begin("publish", process.name, value=value)
        padded = value.ljust(process.chance.choice([0, 0, 3000]))
        try:
            future = await out.send(padded, key=f"{process.chance.randrange(20)}")
        except QuiverError as error:
            self._history.end(event, error)
        else:
            future.add_done_callback(partial(self._answered, event))

    def _answered(self, event: Event, future: AsyncSendFuture) -> None:
        result = future.outcome.result_of(future.row)
        if isinstance(result, QuiverError):
            self._history.end(event, result)
        else:
            event.result = result
            self._history.end(event)

    async def _follow(self, process: ClientProcess) -> None:
        seen = self._seen[process.name] = []
        read_from = process.chance.choice(["leader", "nearest"]) if self._is_replicated else "leader"
        async with process.client.read(TOPIC, timeout=1, read_from=read_from) as reader:
            while not process.is_over:
                try:
                    async for message in reader:
                        seen.append((message.partition, message.offset, bytes(message.value or b"").decode()))
                        if process.is_over:
                            return
                except MessageTimeout:
                    continue

    async def _search(self, process: ClientProcess) -> None:
        while not process.is_over:
            await process.pause(20.0)
            producer = f"/producer-{process.chance.randrange(self._producers)}#"
            found = process.client.search(TOPIC, f'"{producer}" in text', limit=_FOUND_AT_MOST)
            await self._history.request("search", process.name, _values(found), producer=producer)

    def check(self) -> Iterator[Violation]:
        places: dict[str, tuple[int, int]] = {}
        for partition, offset, padded in self._stored:
            value = padded.strip()
            if value in places and not _is_loose(value):
                yield Violation(f"{value} is stored at {places[value]} and at {(partition, offset)}", value)
            places[value] = partition, offset
        yield from self._check_answers(places)
        yield from self._check_order()
        yield from self._check_searches()
        for reader, seen in self._seen.items():
            yield from self._check_reader(reader, seen)

    def _check_answers(self, places: dict[str, tuple[int, int]]) -> Iterator[Violation]:
        for event in self._history.of("publish"):
            value = event.details["value"]
            if event.outcome == "ok":
                told = event.result.partition, event.result.offset
                if places.get(value) != told:
                    yield Violation(f"{value} was acked at {told} and is at {places.get(value)}", value)

    def _check_order(self) -> Iterator[Violation]:
        last: dict[tuple[str, int], tuple[int, str]] = {}
        for partition, _, padded in sorted(self._stored):
            producer, _, number = padded.strip().rpartition(".")
            if _is_loose(producer):
                continue
            before = last.get((producer, partition), (-1, ""))
            if int(number) <= before[0]:
                yield Violation(f"{padded.strip()} is stored after {before[1]} of the same producer", padded.strip())
            last[producer, partition] = int(number), padded.strip()

    def _check_searches(self) -> Iterator[Violation]:
        """A search finds everything that was acked before it began, once, and nothing else."""
        for search in self._history.of("search"):
            if search.outcome != "ok" or len(search.result) >= _FOUND_AT_MOST:
                continue
            producer, found = search.details["producer"], Counter(search.result)
            for value, count in found.items():
                if count > 1 or producer not in value:
                    yield Violation(f"a search for {producer} has found {value} {count} times", value)
            since = self._history.as_of(search)
            acked = (e for e in self._history.of("publish") if e.outcome == "ok" and e.ended < since)
            for value in (event.details["value"] for event in acked):
                if producer in value and value not in found:
                    yield Violation(f"a search at {search.began:.4f} has not found {value}", value)

    def _check_reader(self, reader: str, seen: list[Stored]) -> Iterator[Violation]:
        for partition in range(self._partitions):
            got = [each for each in seen if each[0] == partition]
            there = sorted(each for each in self._stored if each[0] == partition)[: len(got)]
            if got != there:
                pairs = zip_longest(got, there)
                one, other = next((one, other) for one, other in pairs if one != other)
                about = one or other
                yield Violation(f"{reader} got {_short(one)} where {_short(other)} is stored", about[2].strip())


async def _values(search: AsyncSearch) -> list[str]:
    return [bytes(message.value or b"").decode().strip() async for message in search]


def _is_loose(value: str) -> bool:
    return f"/{_LOOSE}#" in value


def _short(stored: Stored | None) -> str:
    return "nothing" if stored is None else f"{stored[2].strip()} at {stored[:2]}"
