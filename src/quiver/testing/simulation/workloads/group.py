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
from quiver.testing.simulation.workloads.positions import Positions

TOPIC, LATER_TOPIC, GROUP = "events", "events-later", "readers"
PATTERN = "events.*"
Place = tuple[str, int]
"""A partition, with the name of its topic, and an offset."""
_QUIET_SECONDS = 12.0
_START = -1
"""Of a partition that its owner has not read yet."""


class GroupWorkload:
    """Some groups read what fits a pattern, and a second topic is created meanwhile. Some are reset."""

    def __init__(self, history: History, chance: random.Random, durability: Durability) -> None:
        self._history = history
        self._durability = durability
        self._partitions = chance.randint(1, 6)
        self._members = chance.randint(1, 4)
        self._auto_commit = chance.choice([False, True])
        self._has_pattern = chance.choice([False, True])
        self._has_resets = not self._auto_commit and chance.choice([False, True])
        if self._has_resets:
            self._members = 1  # a group is reset when it has no members, which is rare if there are several
        self._positions = Positions(history, TOPIC)
        self._stored: dict[str, Place] = {}

    async def prepare(self, process: ClientProcess) -> None:
        await process.client.topics.create(TOPIC, partitions=self._partitions, durability=self._durability)

    def programs(self) -> dict[str, Program]:
        found: dict[str, Program] = {f"member-{number}": self._join for number in range(self._members)}
        found |= {"sender": self._send, "observer": self._observe}
        return found | ({"resetter": self._reset} if self._has_resets else {})

    async def finish(self, process: ClientProcess) -> None:
        await self._read(process, _QUIET_SECONDS)
        await self._look(process)
        for topic in await process.client.topics.list():
            if topic in (TOPIC, LATER_TOPIC):
                async for message in process.client.read(topic, end="latest"):
                    self._stored[bytes(message.value or b"").decode()] = _partition_of(message), message.offset

    async def _send(self, process: ClientProcess) -> None:
        chance, number, topics = process.chance, 0, [TOPIC]
        while not process.is_over:
            for _ in range(chance.choice([1, 3, 10])):
                value = f"{process.name}.{number}"
                number += 1
                publish = process.client.publish(
                    chance.choice(topics), value, partition=chance.randrange(self._partitions)
                )
                await self._history.request("publish", process.name, publish, value=value)
            await process.pause(4.0)
            if self._has_pattern and len(topics) == 1 and chance.random() < 0.1:
                create = process.client.topics.create(
                    LATER_TOPIC, exist_ok=True, partitions=self._partitions, durability=self._durability
                )
                if (await self._history.request("create", process.name, create)).outcome == "ok":
                    topics.append(LATER_TOPIC)

    async def _reset(self, process: ClientProcess) -> None:
        """While nobody is there, to an offset that members have reached in all partitions."""
        while not process.is_over:
            await process.pause(2.0)
            reached = dict.fromkeys((f"{TOPIC}-{number}" for number in range(self._partitions)), 0)
            for event in self._history.of("read"):
                reached[event.details["partition"]] = event.details["offset"]
            offset = process.chance.randint(0, min(reached.values()))
            reset = process.client.groups.reset(GROUP, TOPIC, offset)
            await self._history.request("reset", process.name, reset, offset=offset)

    async def _join(self, process: ClientProcess) -> None:
        while not process.is_over:
            try:
                await self._read(process, 1.0)
            except MemberFenced:
                self._history.saw("fenced", process.name)
            await process.pause(3.0)

    async def _read(self, process: ClientProcess, wait: float) -> None:
        """As a member, until it leaves by itself, or for ever when all is over and there is nothing left."""
        stays = [1.0, 3.0] if self._has_resets else [3.0, 10.0, 100.0]
        stays_until = process.now + process.chance.choice(stays)
        stream = process.client.stream(
            None if self._has_pattern else TOPIC,
            pattern=PATTERN if self._has_pattern else None,
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
        place = {"partition": _partition_of(message), "offset": message.offset, "member": stream.member_id}
        self._history.saw("read", process.name, value=bytes(message.value or b"").decode(), **place)
        await process.pause(0.05)
        if not self._auto_commit and process.chance.random() < 0.5:
            event = await self._history.request("commit", process.name, message.commit(), **place)
            if event.error.startswith("MemberFenced"):
                raise MemberFenced(event.error)

    def _note(self, process: ClientProcess, what: str, stream: AsyncStream, parts: list[tuple[str, int]]) -> None:
        for topic, partition in parts:
            self._history.saw(
                what,
                process.name,
                partition=f"{topic}-{partition}",
                member=stream.member_id,
                generation=stream.generation,
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
        event.details["committed"] = {f"{part.topic}-{part.partition}": part.committed for part in seen.partitions}

    # checks

    def check(self) -> Iterator[Violation]:
        yield from self._check_owners()
        yield from self._check_resets() if self._has_resets else self._check_commits()
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
        known: dict[str, list[tuple[float, int]]] = defaultdict(list)
        for event in self._history.of("commit"):
            if event.outcome == "ok":
                known[event.details["partition"]].append((event.ended, event.details["offset"] + 1))
        looks = [event for event in self._history.of("look") if event.outcome == "ok"]
        for event in looks:
            for partition, offset in event.details["committed"].items():
                known[partition].append((event.ended, offset or 0))
        for event in looks:
            for partition, offset in event.details["committed"].items():
                before = max((at for ended, at in known[partition] if ended < self._history.as_of(event)), default=0)
                if (offset or 0) < before:
                    yield Violation(
                        f"{partition} was committed up to {before}, and is at {offset} at {event.began:.4f}"
                    )

    def _check_resets(self) -> Iterator[Violation]:
        """A group that is reset may go back, to a place that somebody has asked for.

        A partition may begin after a gap. Then a reset goes to its beginning, which is the same place.
        """
        stored = self._stored_offsets()
        for event in self._history.of("look"):
            for partition, offset in event.details.get("committed", {}).items():
                possible = self._positions.possible(partition, self._history.as_of(event), event.ended)
                pairs = [sorted((offset or 0, each)) for each in possible]
                if not any(_is_first(high, low, stored[partition]) for low, high in pairs):
                    yield Violation(f"{partition} is at {offset} at {event.began:.4f}, and not at {sorted(possible)}")

    def _check_reads(self) -> Iterator[Violation]:
        """A member begins at the committed offset, and reads every message in order for as long as it has it."""
        stored = self._stored_offsets()
        last: dict[tuple[str, str, str], int] = {}
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

    def _stored_offsets(self) -> dict[str, list[int]]:
        found: dict[str, list[int]] = defaultdict(list)
        for partition, offset in sorted(self._stored.values()):
            found[partition].append(offset)
        return found

    def _check_read(self, read: Event, last: int, stored: list[int]) -> Iterator[Violation]:
        offset, value = read.details["offset"], read.details["value"]
        if last != _START:
            begins = [last + 1]
        elif self._has_resets:
            assigned = self._assigned(read)
            begins = sorted(self._positions.possible(read.details["partition"], assigned, read.began))
        else:
            begins = self._committed_before(read)
        skipped = [each for each in stored if begins[-1] <= each < offset]
        if offset < begins[0]:
            yield Violation(f"{value} came again: {begins[0]} was reached or committed before", value)
        elif skipped:
            yield Violation(f"{value} came before offset {skipped[0]} of its partition", value)
        elif self._has_resets and not any(_is_first(offset, begin, stored) for begin in begins):
            yield Violation(f"{value} came first, and the group was at {begins}", value)

    def _committed_before(self, read: Event) -> list[int]:
        """The lowest and the highest offset that may be committed when a member gets its partition."""
        partition, assigned = read.details["partition"], self._assigned(read)
        commits = [event for event in self._history.of("commit") if event.details["partition"] == partition]
        sure = [c.details["offset"] + 1 for c in commits if c.outcome == "ok" and c.ended < assigned]
        maybe = [c.details["offset"] + 1 for c in commits if c.may_count and c.began <= read.began]
        if self._auto_commit:  # what was read by then may be committed
            reads = (event for event in self._history.of("read") if event.began < read.began)
            maybe += (event.details["offset"] + 1 for event in reads if event.details["partition"] == partition)
        return [max(sure, default=0), max(maybe, default=0)]

    def _assigned(self, read: Event) -> float:
        """When its member got its partition."""
        member = read.actor, read.details["member"], read.details["partition"]
        return max(
            event.began
            for event in self._history.of("assign")
            if event.began <= read.began
            and (event.actor, event.details["member"], event.details["partition"]) == member
        )

    def _check_fencing(self) -> Iterator[Violation]:
        """Only the owner of a partition can commit it: the member that got it last, in the highest generation. Others
        may get to know of an earlier one only now."""
        owner: dict[str, tuple[int, str]] = {}
        for event in self._history.of("assign", "commit"):
            partition, member = event.details["partition"], event.details["member"]
            generation, known = owner.get(partition, (-1, member))
            if event.what == "assign":
                if event.details["generation"] >= generation:
                    owner[partition] = event.details["generation"], member
            elif event.outcome == "ok" and known != member:
                yield Violation(
                    f"{member} has committed {partition}, which {known} has since generation {generation}"
                )


def _partition_of(message: Message) -> str:
    return f"{message.topic}-{message.partition}"


def _is_first(offset: int, begin: int, stored: list[int]) -> bool:
    return begin <= offset and not any(begin <= each < offset for each in stored)
