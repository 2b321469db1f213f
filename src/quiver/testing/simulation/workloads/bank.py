"""Transactions over publishes, offsets and acks: all of it takes effect or nothing, and every request once."""

import random
from collections import Counter
from collections.abc import Iterator

from quiver.client._async.transaction.transaction import AsyncTransaction
from quiver.model.errors import MessageTimeout, QuiverError
from quiver.model.topic import Durability
from quiver.testing.simulation.history import Event, History, Violation
from quiver.testing.simulation.processes import ClientProcess, Program

LEDGER, REQUESTS, TASKS = "ledger", "requests", "tasks"
_AMOUNTS = {"debit": -1, "credit": 1}
_QUIET_SECONDS = 10.0
_REMOVED = ("MemberFenced:", "GenerationMismatch:")


class BankWorkload:
    """Every transfer is two entries in the ledger, in two partitions, that come together or not at all.

    Transfers come from clients that make them up, from a stream of requests whose offsets are committed in the
    transaction, and a queue of tasks that are acked in it.
    """

    def __init__(self, history: History, chance: random.Random, durability: Durability) -> None:
        self._history = history
        self._durability = durability
        self._partitions = chance.randint(1, 2)
        self._entries: Counter[tuple[str, str]] = Counter()
        """How often each side of each transfer is in the ledger."""
        self._asked: list[str] = []
        """The requests and tasks that are stored."""

    async def prepare(self, process: ClientProcess) -> None:
        await process.client.topics.create(LEDGER, partitions=2, durability=self._durability)
        await process.client.topics.create(REQUESTS, partitions=self._partitions, durability=self._durability)
        await process.client.topics.create(
            TASKS,
            partitions=self._partitions,
            durability=self._durability,
            max_attempts=100,
            visibility=3,
            backoff=0.1,
        )

    def programs(self) -> dict[str, Program]:
        return {
            "asker": self._ask,
            "transfer-0": self._transfer,
            "transfer-1": self._transfer,
            "mover-0": self._move,
            "mover-1": self._move,
            "hand-0": self._work,
            "hand-1": self._work,
        }

    async def finish(self, process: ClientProcess) -> None:
        while await self._has_open_transactions(process):
            await process.pause(10.0)  # those of clients that were killed end by their timeout
        await self._move(process)
        await self._work(process)
        self._entries.clear()
        self._asked.clear()
        async for message in process.client.read(LEDGER, end="latest"):
            transfer, _, side = bytes(message.value or b"").decode().rpartition("|")
            self._entries[transfer, side] += 1
        for topic in (REQUESTS, TASKS):
            async for message in process.client.read(topic, end="latest"):
                self._asked.append(bytes(message.value or b"").decode())

    async def _has_open_transactions(self, process: ClientProcess) -> bool:
        """Readers stop at the first of them, and what it has acked or committed is nobody's until it ends."""
        stable = await process.client.offsets(LEDGER)
        end = await process.client.offsets(LEDGER, isolation="read_uncommitted")
        return stable != end or (await process.client.transactions.list()).total > 0

    # programs

    async def _ask(self, process: ClientProcess) -> None:
        number = 0
        while not process.is_over:
            for topic in (REQUESTS, TASKS):
                value = f"{topic}.{process.name}.{number}"
                publish = process.client.publish(topic, value, key=f"{process.chance.randrange(9)}")
                await self._history.request("publish", process.name, publish, value=value)
            number += 1
            await process.pause(3.0)

    async def _transfer(self, process: ClientProcess) -> None:
        number = 0
        while not process.is_over:
            transaction = process.client.transaction(_id_of(process))
            transfer = f"{process.name}.{number}"
            number += 1
            event = self._history.begin("transfer", process.name, transfer=transfer)
            try:
                await transaction.begin()
                await self._enter(transaction, transfer)
                await process.pause(0.5)
                if process.chance.random() < 0.2:
                    await transaction.abort()
                    event.ended, event.outcome, event.error = process.now, "refused", "aborted"
                else:
                    await self._commit(process, transaction)
                    self._history.end(event)
            except QuiverError as error:
                self._give_up(event, transaction, error)
            await process.pause(2.0)

    async def _move(self, process: ClientProcess) -> None:
        """Offsets of a stream. A failed transaction ends the program: the next one begins at what was committed."""
        wait = _QUIET_SECONDS if process.is_over else 1.0
        stream = process.client.stream(
            REQUESTS, group="movers", timeout=wait, auto_commit=False, session_timeout=6, heartbeat=1
        )
        async with stream:
            while True:
                try:
                    message = await anext(aiter(stream))
                except MessageTimeout:
                    if process.is_over:
                        return
                    continue
                transfer = bytes(message.value or b"").decode()
                event = self._history.begin("move", process.name, transfer=transfer)
                transaction = process.client.transaction(_id_of(process))
                try:
                    await transaction.begin()
                    await self._enter(transaction, transfer)
                    await transaction.commit_offsets(stream)
                    await self._commit(process, transaction)
                except QuiverError as error:
                    self._give_up(event, transaction, error)
                    raise
                self._history.end(event)

    async def _work(self, process: ClientProcess) -> None:
        wait = _QUIET_SECONDS if process.is_over else 1.0
        async with process.client.work(TASKS, group="hands", timeout=wait, prefetch=0) as jobs:
            while True:
                try:
                    job = await jobs.next_job()
                except MessageTimeout:
                    if process.is_over:
                        return
                    continue
                assert job is not None, "nobody stops it"
                transfer = bytes(job.value or b"").decode()
                event = self._history.begin("work", process.name, transfer=transfer, attempt=job.attempt)
                transaction = process.client.transaction(_id_of(process))
                try:
                    await transaction.begin()
                    await self._enter(transaction, transfer)
                    await transaction.ack(job)
                    await self._commit(process, transaction)
                except QuiverError as error:
                    self._give_up(event, transaction, error)
                else:
                    self._history.end(event)

    async def _enter(self, transaction: AsyncTransaction, transfer: str) -> None:
        for partition, side in enumerate(_AMOUNTS):
            await transaction.publish(LEDGER, f"{transfer}|{side}", partition=partition)

    async def _commit(self, process: ClientProcess, transaction: AsyncTransaction) -> None:
        """Asks again while nobody knows, for a while."""
        for _ in range(3):
            try:
                await transaction.commit()
                return
            except QuiverError:
                if not transaction.is_uncertain:
                    raise
            await process.pause(3.0)
        await transaction.commit()

    def _give_up(self, event: Event, transaction: AsyncTransaction, error: QuiverError) -> None:
        """Unless it is uncertain, it does not count: whatever ended it, it was not committed."""
        self._history.end(event, error)
        event.outcome = "unknown" if transaction.is_uncertain else "refused"

    # checks

    def check(self) -> Iterator[Violation]:
        transfers = dict.fromkeys(transfer for transfer, _ in self._entries)
        for transfer in transfers:
            counts = [self._entries[transfer, side] for side in _AMOUNTS]
            if counts[0] != counts[1]:
                yield Violation(f"{transfer} is in the ledger in part: {counts}", transfer)
            if max(counts) > 1:
                yield Violation(f"{transfer} is in the ledger {max(counts)} times", transfer)
        balance = sum(_AMOUNTS[side] * count for (_, side), count in self._entries.items())
        if balance:
            yield Violation(f"the accounts sum up to {balance}")
        for event in self._history.of("transfer"):
            is_there = event.details["transfer"] in transfers
            if event.outcome == "ok" and not is_there:
                yield Violation(f"{event.details['transfer']} was committed and is lost", event.details["transfer"])
            if event.outcome == "refused" and is_there:
                yield Violation(f"{event.details['transfer']} was aborted and is there", event.details["transfer"])
        yield from self._check_once("move", "work")
        stored = set(self._asked)
        for event in self._history.of("publish"):
            if event.outcome == "ok" and event.details["value"] not in stored:
                yield Violation(f"{event.details['value']} was acked and is not stored", event.details["value"])
        for value in self._asked:
            if value not in transfers:
                yield Violation(f"{value} was never carried out", value)

    def _check_once(self, *what: str) -> Iterator[Violation]:
        """What was committed with its offset or its ack is never read or delivered again.

        A delivery that was on its way when its lease ended may come after a later one was committed: its attempt says
        that it is the earlier one. A member of the stream group that was removed, and could not be told, goes on
        reading; it can commit nothing.
        """
        done: dict[str, Event] = {}
        for event in self._history.of(*what):
            transfer = event.details["transfer"]
            before = done.get(transfer)
            if _is_of_removed_member(event):
                continue
            if before is not None and event.began > before.ended and _attempt(event) >= _attempt(before):
                yield Violation(f"{transfer} came again after it was committed", transfer)
            if event.outcome == "ok" and (before is None or event.ended < before.ended):
                done[transfer] = event


def _is_of_removed_member(event: Event) -> bool:
    return event.what == "move" and event.outcome != "ok" and event.error.startswith(_REMOVED)


def _attempt(event: Event) -> int:
    """0 for what is read from a stream."""
    return int(event.details.get("attempt", 0))


def _id_of(process: ClientProcess) -> str:
    """The same for all that follow each other in one place: the new one fences the old one."""
    return process.name.partition("#")[0]
