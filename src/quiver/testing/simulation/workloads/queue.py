"""Jobs of a queue group with every kind of settlement: settled once per group or one dead letter, nothing lost."""

import math
import random
from collections import defaultdict
from collections.abc import Awaitable, Iterator
from functools import partial
from typing import Any

from quiver.client._async.work.job import AsyncJob
from quiver.model.errors import MessageTimeout
from quiver.model.priority import PriorityLevel
from quiver.model.queue import Ordering
from quiver.model.settlement import parse_receipt
from quiver.model.topic import Durability
from quiver.testing.simulation.history import Event, History, Violation
from quiver.testing.simulation.processes import ClientProcess, Program
from quiver.testing.simulation.system.clock import EPOCH_MS, ClockRecord
from quiver.testing.simulation.workloads.queue_pauses import QueuePauses

TOPIC = "jobs"
MAX_ATTEMPTS = 5
_VISIBILITY_SECONDS = 3.0
_QUIET_SECONDS = 10.0
"""Nothing comes back later than that when nobody disturbs: leases, retries and backoff are shorter."""
_ROUNDING_MS = 2
_TTLS = [None, None, None, 1, 8]
_PRIORITIES: list[PriorityLevel] = ["critical", "normal", "normal", "low"]
_GROUPS: dict[str, Ordering] = {"plain": "none", "keyed": "key"}


class QueueWorkload:
    """One topic, a group that is ordered by key and one that is not. `clock` is that of the broker."""

    def __init__(self, history: History, chance: random.Random, durability: Durability, clock: ClockRecord) -> None:
        self._history = history
        self._clock = clock
        self._durability = durability
        self._partitions = chance.randint(1, 3)
        self._workers = chance.randint(1, 3)
        self._pauses = QueuePauses(history, TOPIC, list(_GROUPS))
        self._keys: dict[str, tuple[int, int, str]] = {}
        """Partition, offset and key of each stored message."""
        self._dead_letters: dict[tuple[str, str], list[str]] = defaultdict(list)
        """By group and value: the reasons."""
        self._expired: dict[tuple[str, str], int] = {}
        """By group and value: when, by the broker's clock."""

    async def prepare(self, process: ClientProcess) -> None:
        await process.client.topics.create(
            TOPIC,
            partitions=self._partitions,
            durability=self._durability,
            max_attempts=MAX_ATTEMPTS,
            visibility=_VISIBILITY_SECONDS,
            backoff=0.2,
            backoff_max=1,
        )

    def programs(self) -> dict[str, Program]:
        found: dict[str, Program] = {"publisher": self._publish}
        for group in _GROUPS:
            for number in range(self._workers):
                found[f"{group}-{number}"] = partial(self._work, group=group)
        return found | self._pauses.programs()

    async def finish(self, process: ClientProcess) -> None:
        await self._pauses.finish(process)
        for group in _GROUPS:
            await self._drain(process, group)
        async for message in process.client.read(TOPIC, end="latest", include_expired=True):
            value, key = bytes(message.value or b"").decode(), bytes(message.key or b"").decode()
            self._keys[value] = message.partition, message.offset, key
        self._dead_letters.clear()
        after: str | None = None
        while True:
            page = await process.client.dead_letters.list(TOPIC, after=after)
            for dead_letter in page:
                about = dead_letter.group, bytes(dead_letter.value or b"").decode()
                self._dead_letters[about].append(dead_letter.reason)
                if dead_letter.reason == "expired":
                    self._expired[about] = dead_letter.died_at_ms
            after = page.next
            if after is None:
                return

    # programs

    async def _publish(self, process: ClientProcess) -> None:
        number = 0
        while not process.is_over:
            for _ in range(process.chance.choice([1, 2, 5])):
                value = f"{process.name}.{number}"
                number += 1
                ttl, priority = process.chance.choice(_TTLS), process.chance.choice(_PRIORITIES)
                key = f"{process.chance.randrange(6)}"
                publish = process.client.publish(TOPIC, value, key=key, ttl=ttl, priority=priority)
                await self._history.request("publish", process.name, publish, value=value, ttl=ttl)
            await process.pause(3.0)

    async def _work(self, process: ClientProcess, group: str) -> None:
        prefetch = process.chance.choice([None, 0, 4])
        work = process.client.work(TOPIC, group=group, ordering=_GROUPS[group], prefetch=prefetch, timeout=1)
        left: list[Event] = []
        async with work as jobs:
            while not process.is_over:
                try:
                    job = await jobs.next_job()
                except MessageTimeout:
                    continue
                assert job is not None, "nobody stops it"
                await self._settle(process, self._saw(process, group, job), job, left)
        for event in left:  # nothing was refused, and the end of the block waits for all of them
            event.ended, event.outcome = process.now, "ok"

    def _saw(self, process: ClientProcess, group: str, job: AsyncJob) -> dict[str, Any]:
        lease = parse_receipt(job.receipt).lease_id
        details = {"value": _value_of(job), "group": group, "attempt": job.attempt, "lease": lease}
        self._history.saw("deliver", process.name, **details)
        return details

    async def _settle(
        self, process: ClientProcess, details: dict[str, Any], job: AsyncJob, left: list[Event]
    ) -> None:
        chance = process.chance
        await process.pause(chance.choice([0.001, 0.05, 0.5]))
        what = chance.choices(["ack", "nack", "reject", "extend", "hold", "block"], [60, 12, 4, 5, 2, 10])[0]
        request = partial(self._request, process, details)
        if what == "nack":
            delay = chance.choice([None, 0, 0.5, 2])
            await request("nack", job.nack(delay, "not today", counted=chance.random() < 0.8))
        elif what == "reject":
            await request("reject", job.reject("never"))
        elif what == "block":
            event = await request("ack", _leave(job))
            if event.outcome == "ok":  # it gathers with others: whether it counts is told later, or never
                event.outcome = "unknown"
                left.append(event)
        else:
            if what == "extend":
                await request("extend", job.extend(chance.choice([1, 5])))
            elif what == "hold":
                await process.pause(3 * _VISIBILITY_SECONDS)  # the lease is renewed meanwhile
            await request("ack", job.ack())

    async def _request(
        self, process: ClientProcess, details: dict[str, Any], what: str, call: Awaitable[Any]
    ) -> Event:
        """LeaseLost is sure: it is said of what was not settled, by no request of this consumer."""
        event = await self._history.request(what, process.name, call, **details)
        if event.error.startswith("LeaseLost"):
            event.outcome = "refused"
        return event

    async def _drain(self, process: ClientProcess, group: str) -> None:
        """Acks everything that is left."""
        async with process.client.work(TOPIC, group=group, ordering=_GROUPS[group], timeout=_QUIET_SECONDS) as jobs:
            while True:
                try:
                    job = await jobs.next_job()
                except MessageTimeout:
                    return
                assert job is not None, "nobody stops it"
                await self._request(process, self._saw(process, group, job), "ack", job.ack())

    # checks

    def check(self) -> Iterator[Violation]:
        by_message: dict[tuple[str, str], list[Event]] = defaultdict(list)
        for event in self._history.of("deliver", "ack", "nack", "reject"):
            by_message[event.details["group"], event.details["value"]].append(event)
        for event in self._history.of("publish"):
            if event.outcome == "ok" and event.details["value"] not in self._keys:
                yield Violation(f"{event.details['value']} was acked and is not stored", event.details["value"])
        for group in _GROUPS:
            for value in self._keys:
                yield from self._check_settled(group, value, by_message[group, value])
                yield from self._check_deliveries(group, value, by_message[group, value])
        yield from self._check_expired()
        yield from self._check_key_order(by_message)
        yield from self._pauses.check()

    def _check_settled(self, group: str, value: str, events: list[Event]) -> Iterator[Violation]:
        letters = self._dead_letters.get((group, value), [])
        acks = [event for event in events if event.what == "ack"]
        rejects = [event for event in events if event.what == "reject"]
        if not letters and not any(ack.may_count for ack in acks):
            yield Violation(f"{value} is lost in {group}: neither acked nor a dead letter", value)
        if len(letters) > 1:
            yield Violation(f"{value} is a dead letter of {group} {len(letters)} times: {letters}", value)
        if letters and any(ack.outcome == "ok" and not self._may_have_died(ack, letters, events) for ack in acks):
            yield Violation(f"{value} was acked in {group} and is a dead letter ({letters[0]})", value)
        if not letters and any(each.outcome == "ok" and not self._others(each, events) for each in rejects):
            yield Violation(f"{value} was rejected in {group} and is no dead letter", value)
        if letters == ["rejected"] and not any(reject.may_count for reject in rejects):
            yield Violation(f"{value} is a dead letter of {group} that nobody rejected", value)

    def _check_deliveries(self, group: str, value: str, events: list[Event]) -> Iterator[Violation]:
        """What was acked or rejected is not leased again, and there are only so many attempts.

        A lease with a higher number was given later. When a settlement counts, no later lease of its message has been
        given, so none is given at all. A power cut may have lost a later one, which then came before the settlement.
        """
        deliveries = [event for event in events if event.what == "deliver"]
        for settled in events:
            if settled.what in ("ack", "reject") and settled.outcome == "ok":
                known = max((other.details["lease"] for other in self._others(settled, events)), default=0)
                for delivery in deliveries:
                    is_later = delivery.began > settled.began
                    if is_later and delivery.details["lease"] > max(known, settled.details["lease"]):
                        yield Violation(f"{value} was settled in {group} ({settled.what}) and delivered again", value)
        if any(delivery.details["attempt"] > MAX_ATTEMPTS for delivery in deliveries):
            yield Violation(f"{value} was delivered in {group} more than {MAX_ATTEMPTS} times", value)

    def _may_have_died(self, ack: Event, reasons: list[str], events: list[Event]) -> bool:
        """Whether an ack that was sent again has found its message settled as a dead letter: its lease has ended."""
        return bool(self._others(ack, events)) or (reasons != ["rejected"] and self._history.was_disturbed(ack))

    def _others(self, settled: Event, events: list[Event]) -> list[Event]:
        """Settlements of later leases that may have made this one look as if it had counted.

        Leases are not synced. After a power cut another consumer may get the message and settle it, and a settlement
        that is sent again then finds it settled (ADR 0017).
        """
        if not self._history.was_disturbed(settled):
            return []
        return [
            other
            for other in events
            if other.what in ("ack", "nack", "reject")
            and other.may_count
            and other.details["lease"] > settled.details["lease"]
            and other.began < settled.ended
        ]

    def _check_expired(self) -> Iterator[Violation]:
        """Only a message with a time to live expires, and not before its time.

        The client's clock, which is right, says when that is; the broker's, when it has come. What it said then is
        not known, but its time when the dead letter was written, between two steps maybe.
        """
        publishes = {event.details["value"]: event for event in self._history.of("publish")}
        for (group, value), died_at_ms in self._expired.items():
            publish = publishes[value]
            if publish.details["ttl"] is None:
                yield Violation(f"{value} has expired in {group} without a time to live", value)
                continue
            ahead_ms = self._clock.ahead_ms(publish.began, math.inf)
            due_ms = EPOCH_MS + (publish.began + publish.details["ttl"]) * 1000
            early_ms = due_ms - died_at_ms - (max(ahead_ms) - min(ahead_ms))
            if early_ms > _ROUNDING_MS:
                yield Violation(f"{value} has expired in {group} {early_ms:.0f} ms early", value)

    def _check_key_order(self, by_message: dict[tuple[str, str], list[Event]]) -> Iterator[Violation]:
        """A message comes when those before it with its key are settled, or to the consumer that holds those."""
        lanes: dict[tuple[int, str], list[tuple[int, str]]] = defaultdict(list)
        for value, (partition, offset, key) in self._keys.items():
            lanes[partition, key].append((offset, value))
        for lane in lanes.values():
            earlier: list[str] = []
            for _, value in sorted(lane):
                for delivery in (event for event in by_message["keyed", value] if event.what == "deliver"):
                    for before in earlier[-3:]:
                        if not self._is_over_by(delivery, by_message["keyed", before], before):
                            yield Violation(f"{value} overtook {before} of its key", value)
                earlier.append(value)

    def _is_over_by(self, delivery: Event, events: list[Event], value: str) -> bool:
        if self._dead_letters.get(("keyed", value)):
            return True  # when it died is not known
        return any(
            (event.what == "ack" and event.may_count and event.began <= delivery.began)
            or (event.what == "deliver" and event.actor == delivery.actor)
            for event in events
        )


def _value_of(job: AsyncJob) -> str:
    return bytes(job.value or b"").decode()


async def _leave(job: AsyncJob) -> None:
    async with job:
        pass
