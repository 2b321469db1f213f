"""A compacted topic: the last message of each key stays, whatever is compacted when, and no reader misses it."""

import random
from collections import Counter, defaultdict
from collections.abc import Iterator

from quiver.client.message import Message
from quiver.model.errors import MessageTimeout
from quiver.model.topic import Durability
from quiver.testing.simulation.history import Event, History, Violation
from quiver.testing.simulation.processes import ClientProcess, Program

TOPIC = "table"
_WRITERS = 2
_KEYS = 8
_PADDING = 6_000
"""Some values are as long, so that segments fill up."""
Row = tuple[int, int, str, str]
"""Partition, offset, key and value; a tombstone has an empty value."""


class TableWorkload:
    """Each writer has its own keys and waits for each response, so that it is known what comes last."""

    def __init__(self, history: History, chance: random.Random, durability: Durability) -> None:
        self._history = history
        self._durability = durability
        self._partitions = chance.randint(1, 3)
        self._tombstone_retention = chance.choice([0, 5, 86_400])
        self._seen: dict[str, list[Row]] = {}
        """What each reader got, in its order."""
        self._rows: list[Row] = []
        """What is left after the last compaction."""

    async def prepare(self, process: ClientProcess) -> None:
        await process.client.topics.create(
            TOPIC,
            partitions=self._partitions,
            durability=self._durability,
            cleanup="compact",
            tombstone_retention=self._tombstone_retention,
            segment_bytes="64KiB",
        )

    def programs(self) -> dict[str, Program]:
        writers: dict[str, Program] = {f"writer-{number}": self._write for number in range(_WRITERS)}
        return {**writers, "table-reader": self._follow, "compactor": self._compact}

    async def finish(self, process: ClientProcess) -> None:
        await process.client.topics.compact(TOPIC)
        self._rows = [_row(message) async for message in process.client.read(TOPIC, end="latest")]

    async def _write(self, process: ClientProcess) -> None:
        chance, number, slot = process.chance, 0, process.name.partition("#")[0]
        while not process.is_over:
            for _ in range(chance.choice([1, 5, 20])):
                key, value = f"{slot}/{chance.randrange(_KEYS)}", f"{process.name}.{number}"
                number += 1
                padded = None if chance.random() < 0.15 else value.ljust(chance.choice([0, _PADDING]))
                publish = process.client.publish(TOPIC, padded, key=key)
                stored = "" if padded is None else value
                await self._history.request("publish", process.name, publish, key=key, value=stored)
            await process.pause(2.0)

    async def _follow(self, process: ClientProcess) -> None:
        seen = self._seen[process.name] = []
        async with process.client.read(TOPIC, timeout=1) as reader:
            while not process.is_over:
                try:
                    async for message in reader:
                        seen.append(_row(message))
                        if process.is_over:
                            return
                except MessageTimeout:
                    continue

    async def _compact(self, process: ClientProcess) -> None:
        """By hand, beside what the broker does by itself."""
        while not process.is_over:
            await process.pause(10.0)
            await self._history.request("compact", process.name, process.client.topics.compact(TOPIC))

    # checks

    def check(self) -> Iterator[Violation]:
        for key, count in Counter(key for _, _, key, _ in self._rows).items():
            if count > 1:
                yield Violation(f"{key} is there {count} times after a compaction", key)
        yield from self._check_last()
        for reader, seen in self._seen.items():
            yield from self._check_reader(reader, seen)

    def _check_last(self) -> Iterator[Violation]:
        """Of each key there is what was written last, at its place, or nothing if that was a tombstone."""
        rows = {key: (partition, offset, value) for partition, offset, key, value in self._rows}
        by_key: dict[str, list[Event]] = defaultdict(list)
        for event in self._history.of("publish"):
            by_key[event.details["key"]].append(event)
        for key, events in by_key.items():
            last = [event for event in events if _may_be_last(event, events)]
            found = rows.get(key)
            if found is None:
                if all(event.details["value"] for event in last) and any(event.outcome == "ok" for event in last):
                    yield Violation(f"{key} is lost", key)
            elif not any(_is_row(event, found) for event in last):
                yield Violation(f"{key} is {found[2] or 'a tombstone'}, which is not what was written last", key)

    def _check_reader(self, reader: str, seen: list[Row]) -> Iterator[Violation]:
        """It gets messages in order, and everything that stays up to where it has come."""
        position: dict[int, int] = {}
        for partition, offset, key, _ in seen:
            if offset < position.get(partition, 0):
                yield Violation(f"{reader} got offset {offset} after offset {position[partition] - 1}", key)
            position[partition] = offset + 1
        for row in self._rows:
            if row[1] < position.get(row[0], 0) and row not in seen:
                yield Violation(f"{reader} has passed {row}, and never got it", row[2])


def _row(message: Message) -> Row:
    key, value = (bytes(each or b"").decode() for each in (message.key, message.value))
    return message.partition, message.offset, key, value.strip()


def _may_be_last(event: Event, events: list[Event]) -> bool:
    """Whether no other is sure to be stored after it. One without a response may be stored at any time."""
    if not event.may_count:
        return False
    if event.outcome == "unknown":
        return True
    return not any(other.outcome == "ok" and other.began > event.ended for other in events)


def _is_row(event: Event, found: tuple[int, int, str]) -> bool:
    partition, offset, value = found
    if event.details["value"] != value:
        return False
    return event.outcome != "ok" or (event.result.partition, event.result.offset) == (partition, offset)
