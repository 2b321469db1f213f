"""Members of a stream group that come, go and are killed: one owner per generation, commits that never go back."""

import random
from collections import defaultdict
from collections.abc import Iterator

from quiver.client._async.stream.stream import AsyncStream
from quiver.client.message import Message
from quiver.model.errors import MemberFenced, MessageTimeout, QuiverError
from quiver.model.topic import Durability
from quiver.testing.simulation.history import Event, History, Violation
from quiver.testing.simulation.processes import ClientProcess, Program

TOPIC, GROUP = "events", "readers"
_QUIET_SECONDS = 12.0
_START = -1
"""Of a partition that its owner has not read yet."""


class GroupWorkload:
    def __init__(self, history: History, chance: random.Random, durability: Durability) -> None:
        self._history = history
        self._durability = durability
        self._partitions = chance.randint(1, 6)
        self._members = chance.randint(1, 4)
        self._auto_commit = chance.choice([False, True])
        self._stored: dict[str, tuple[int, int]] = {}

    async def prepare(self, process: ClientProcess) -> None:
        await process.client.topics.create(TOPIC, partitions=self._partitions, durability=self._durability)

    def programs(self) -> dict[str, Program]:
        found: dict[str, Program] = {f"member-{number}": self._join for number in range(self._members)}
        return {**found, "sender": self._send, "observer": self._observe}

    async def finish(self, process: ClientProcess) -> None:
        await self._read(process, _QUIET_SECONDS)
        await self._look(process)
        async for message in process.client.read(TOPIC, end="latest"):
            self._stored[bytes(message.value or b"").decode()] = message.partition, message.offset

    async def _send(self, process: ClientProcess) -> None:
        number = 0
        while not process.is_over:
            for _ in range(process.chance.choice([1, 3, 10])):
                value = f"{process.name}.{number}"
                number += 1
                publish = process.client.publish(TOPIC, value, partition=process.chance.randrange(self._partitions))
                await self._history.request("publish", process.name, publish, value=value)
            await process.pause(4.0)

    async def _join(self, process: ClientProcess) -> None:
        while not process.is_over:
            try:
                await self._read(process, 1.0)
            except MemberFenced:
                self._history.saw("fenced", process.name)
            await process.pause(3.0)

    async def _read(self, process: ClientProcess, wait: float) -> None:
        """As a member, until it leaves by itself, or for ever when all is over and there is nothing left."""
        stays_until = process.now + process.chance.choice([3.0, 10.0, 100.0])
        stream = process.client.stream(
            TOPIC,
            group=GROUP,
            auto_commit="1s" if self._auto_commit else False,
            session_timeout=6,
            heartbeat=1,
            timeout=wait,
            on_assign=lambda parts: self._note(process, "assign", stream, parts),
            on_revoke=lambda parts: self._note(process, "revoke", stream, parts),
            on_lost=lambda parts: self._note(process, "lost", stream, parts),
        )
        async with stream:
            while process.is_over or process.now < stays_until:
                try:
                    message = await anext(aiter(stream))
                except MessageTimeout:
                    if process.is_over:
                        return
                    continue
                await self._take(process, stream, message)
                if process.is_over and wait < _QUIET_SECONDS:
                    return

    async def _take(self, process: ClientProcess, stream: AsyncStream, message: Message) -> None:
        place = {"partition": message.partition, "offset": message.offset, "member": stream.member_id}
        self._history.saw("read", process.name, value=bytes(message.value or b"").decode(), **place)
        await process.pause(0.05)
        if not self._auto_commit and process.chance.random() < 0.5:
            event = await self._history.request("commit", process.name, message.commit(), **place)
            if event.error.startswith("MemberFenced"):
                raise MemberFenced(event.error)

    def _note(self, process: ClientProcess, what: str, stream: AsyncStream, parts: list[tuple[str, int]]) -> None:
        for _, partition in parts:
            self._history.saw(
                what, process.name, partition=partition, member=stream.member_id, generation=stream.generation
            )

    async def _observe(self, process: ClientProcess) -> None:
        while not process.is_over:
            await self._look(process)
            await process.pause(2.0)

    async def _look(self, process: ClientProcess) -> None:
        event = self._history.begin("look", process.name)
        try:
            seen = await process.client.groups.describe(GROUP)
        except QuiverError as error:
            self._history.end(event, error)
            return
        event.result = seen
        self._history.end(event)
        event.details["committed"] = {part.partition: part.committed for part in seen.partitions}

    # checks

    def check(self) -> Iterator[Violation]:
        yield from self._check_owners()
        yield from self._check_commits()
        yield from self._check_reads()
        yield from self._check_fencing()
        read = {event.details["value"] for event in self._history.of("read")}
        for event in self._history.of("publish"):
            if event.outcome == "ok" and event.details["value"] not in self._stored:
                yield Violation(f"{event.details['value']} was acked and is not stored", event.details["value"])
        for value, place in self._stored.items():
            if value not in read:
                yield Violation(f"{value} at {place} was never read by the group", value)

    def _check_owners(self) -> Iterator[Violation]:
        """Members get to know a generation at different times, so their views may overlap; the broker's may not."""
        for event in self._history.of("look"):
            if event.outcome == "ok":
                held = [place for member in event.result.members for place in member.partitions]
                if len(held) != len(set(held)):
                    yield Violation(f"a partition has two owners in generation {event.result.generation}: {held}")

    def _check_commits(self) -> Iterator[Violation]:
        """What was returned or seen is visible to everybody afterwards."""
        known: dict[int, list[tuple[float, int]]] = defaultdict(list)
        for event in self._history.of("commit"):
            if event.outcome == "ok":
                known[event.details["partition"]].append((event.ended, event.details["offset"] + 1))
        looks = [event for event in self._history.of("look") if event.outcome == "ok"]
        for event in looks:
            for partition, offset in event.details["committed"].items():
                known[partition].append((event.ended, offset or 0))
        for event in looks:
            for partition, offset in event.details["committed"].items():
                before = max((at for ended, at in known[partition] if ended < event.began), default=0)
                if (offset or 0) < before:
                    yield Violation(
                        f"partition {partition} was committed up to {before}, and is at {offset} at {event.began:.4f}"
                    )

    def _check_reads(self) -> Iterator[Violation]:
        """A member begins at the committed offset, and reads every message in order for as long as it has it."""
        stored: dict[int, list[int]] = defaultdict(list)
        for partition, offset in sorted(self._stored.values()):
            stored[partition].append(offset)
        last: dict[tuple[str, str, int], int] = {}
        """None is left out between this offset and the next one of the member."""
        for event in self._history.of("read", "assign", "revoke", "lost"):
            partition = event.details["partition"]
            place = event.actor, event.details["member"], partition
            if event.what == "assign":
                last[place] = _START
            elif event.what != "read":
                last.pop(place, None)
            elif place not in last:
                yield Violation(f"{event.details['value']} was read by a member that does not have its partition")
            else:
                yield from self._check_read(event, last[place], stored[partition])
                last[place] = event.details["offset"]

    def _check_read(self, read: Event, last: int, stored: list[int]) -> Iterator[Violation]:
        offset, value = read.details["offset"], read.details["value"]
        low, high = (last + 1, last + 1) if last != _START else self._committed_before(read)
        skipped = [each for each in stored if high <= each < offset]
        if offset < low:
            yield Violation(f"{value} came again: {low} was reached or committed before", value)
        elif skipped:
            yield Violation(f"{value} came before offset {skipped[0]} of its partition", value)

    def _committed_before(self, read: Event) -> tuple[int, int]:
        """The lowest and the highest offset that may be committed when a member gets its partition."""
        partition = read.details["partition"]
        assigned = max(
            event.began
            for event in self._history.of("assign")
            if event.began <= read.began
            and (event.actor, event.details["partition"]) == (read.actor, partition)
            and event.details["member"] == read.details["member"]
        )
        commits = [event for event in self._history.of("commit") if event.details["partition"] == partition]
        sure = [c.details["offset"] + 1 for c in commits if c.outcome == "ok" and c.ended < assigned]
        maybe = [c.details["offset"] + 1 for c in commits if c.may_count and c.began <= read.began]
        if self._auto_commit:  # what was read by then may be committed
            reads = (event for event in self._history.of("read") if event.began < read.began)
            maybe += (event.details["offset"] + 1 for event in reads if event.details["partition"] == partition)
        return max(sure, default=0), max(maybe, default=0)

    def _check_fencing(self) -> Iterator[Violation]:
        """Only the owner of a partition can commit it."""
        owner: dict[int, str] = {}
        for event in self._history.of("assign", "commit"):
            partition, member = event.details["partition"], event.details["member"]
            if event.what == "assign":
                owner[partition] = member
            elif event.outcome == "ok" and owner.get(partition, member) != member:
                yield Violation(f"{member} has committed partition {partition}, which {owner[partition]} has")
