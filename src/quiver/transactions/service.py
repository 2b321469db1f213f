"""Transactions: messages in many partitions, offsets and acks that take effect together or not at all."""

import asyncio
import logging
from collections.abc import Coroutine, Sequence
from typing import Any, NamedTuple, TypeVar

from quiver.messages.publish import Published
from quiver.model.errors import CorruptData, InvalidRequest, QuiverError, ShuttingDown, WorkerUnavailable
from quiver.model.message import NewMessage
from quiver.model.transaction import (
    DEFAULT_TIMEOUT_MS,
    GroupOffsetCommit,
    LeasedAcks,
    ProducerInfo,
    ProducerKey,
    TransactionInfo,
)
from quiver.storage.port import Storage
from quiver.system.pace import ToTheEnd
from quiver.telemetry.failures import Failures
from quiver.telemetry.histogram import Histogram
from quiver.telemetry.periodic_task import PeriodicTask
from quiver.transactions.aborts import TransactionAborts
from quiver.transactions.commits import TransactionCommits, answer_of, ending
from quiver.transactions.coordinator import Coordinator
from quiver.transactions.decision_applier import DecisionApplier
from quiver.transactions.limits import check_offset_count, check_producers, check_runs, commit_key
from quiver.transactions.listing import describe, list_producers, list_transactions
from quiver.transactions.owners.answers import CoordinatorAnswers
from quiver.transactions.owners.asking import AskedOwners
from quiver.transactions.owners.joined_frames import JoinedFrames
from quiver.transactions.owners.offset_checks import check_held_offsets
from quiver.transactions.owners.own_units import OwnUnits
from quiver.transactions.owners.owner import TransactionOwner
from quiver.transactions.producer import Answer
from quiver.transactions.publishing import TransactionPublishing
from quiver.transactions.recovery import end_open, finish_decided

logger = logging.getLogger(__name__)

T = TypeVar("T")
_TICK_SECONDS = 0.25
_MAINTENANCE_TICKS = 4


class TransactionStats(NamedTuple):
    active: int
    committed: int
    aborted: int
    average_duration_ms: float
    """Durations from the beginning to the decision, since the broker started."""


class Transactions:
    def __init__(
        self, coordinator: Coordinator, publishing: TransactionPublishing, units: OwnUnits, frames: JoinedFrames
    ) -> None:
        self._coordinator = coordinator
        self.publishing = publishing
        self._streams = units.streams
        self.owners = AskedOwners()
        """The other workers, for the one that coordinates."""
        self.answers = CoordinatorAnswers(coordinator)
        """What that one answers to them."""
        self.owner = TransactionOwner(units, frames)
        """This worker, for the one that coordinates."""
        self.owner.share_with(self.answers)
        self._applier = DecisionApplier(coordinator, units, self.owners)
        self._recovering: asyncio.Task[None] | None = None
        self._to_the_end = ToTheEnd()
        self._aborts = TransactionAborts(coordinator, self._applier)
        self._commits = TransactionCommits(coordinator, self._applier, self.owners)
        self.task = PeriodicTask("transactions", self._maintain, every_seconds=_TICK_SECONDS)
        self._ticks = 0

    async def start(self, storage: Storage, epoch: int, *, is_coordinator: bool) -> None:
        """Finishes what was decided and aborts what was open. Called when groups and leases are open, before they are
        used."""
        if is_coordinator:
            await self._start(storage, epoch)
        self.owner.start(is_coordinator=is_coordinator)

    async def _start(self, storage: Storage, epoch: int) -> None:
        try:
            await self._coordinator.start(storage, epoch)
        except CorruptData as error:
            logger.error("transactions are not available until this is repaired: %s", error)
            return
        await finish_decided(self._coordinator, self._applier)
        if self.owners.others is None:
            await end_open(self._coordinator, self._applier, self.owners)
            self.task.start()
            return
        self._coordinator.waits_for = WorkerUnavailable(
            "what other workers have of transactions is not known yet; try again", worker=0
        )
        self._recovering = asyncio.get_running_loop().create_task(self._recover())

    async def _recover(self) -> None:
        """Other workers may wait for this one, so it starts without them."""
        await end_open(self._coordinator, self._applier, self.owners)
        self._coordinator.waits_for = None
        self.task.start()

    async def ready(self) -> None:
        """Returns when it is known what was open when this process started. Without other workers that is so at
        once."""
        recovering = self._recovering
        if recovering is not None:
            try:
                await asyncio.shield(recovering)
            except asyncio.CancelledError:
                if recovering.cancelled():
                    raise ShuttingDown() from None
                raise
            self._recovering = None

    async def stop(self) -> None:
        """Finishes decisions that have begun. What is open stays open, and is aborted at the next start."""
        self.owners.stop()
        if self._recovering is not None:
            self._recovering.cancel()
            await asyncio.gather(self._recovering, return_exceptions=True)
        await self.task.stop()
        await asyncio.gather(self._aborts.finish(), self._to_the_end.finish(), return_exceptions=True)
        await self._applier.stop()
        await self._coordinator.close()
        await self.owner.stop()

    @property
    def problem(self) -> QuiverError | None:
        """Why transactions are not available."""
        return self._coordinator.problem

    def refuse(self, problem: QuiverError) -> None:
        """Called instead of `start` if something that transactions need is damaged."""
        self._coordinator.journaled.refuse(problem)

    # producers

    async def init(self, transactional_id: str | None = None, timeout_ms: int = DEFAULT_TIMEOUT_MS) -> ProducerKey:
        """The producer of a transactional id, one epoch higher than before; without one, a new producer."""
        self._coordinator.check_init(transactional_id, timeout_ms)
        return await self._through(self._init(transactional_id, timeout_ms))

    async def _init(self, transactional_id: str | None, timeout_ms: int) -> ProducerKey:
        if transactional_id is None:
            return await self._coordinator.initialize(None, timeout_ms)
        async with self._coordinator.alone(f"id {transactional_id}"):
            known = self._coordinator.state.ids.get(transactional_id)
            if known is None:
                return await self._coordinator.initialize(transactional_id, timeout_ms)
            return await self._fence(known, timeout_ms)

    async def next_epoch(self, producer_id: int, epoch: int) -> ProducerKey | None:
        """Gives a transactional producer its next epoch, which aborts what it has open; None if it is not
        transactional.

        While transactions are not available, it gets a new id.
        """
        if self._coordinator.problem is not None:
            return await self._coordinator.new_producer()
        known = self._coordinator.state.producers.get(producer_id)
        if known is None:
            return None
        self._coordinator.state.check(producer_id, epoch)
        return await self._through(self._fence(producer_id, known.timeout_ms))

    async def _fence(self, producer_id: int, timeout_ms: int) -> ProducerKey:
        async with self._coordinator.alone(producer_id):
            producer = self._coordinator.state.producers[producer_id]
            found = self._coordinator.open.get(producer_id)
            if found is not None:
                found.is_ending = True
                await self._aborts.abort([found], "fenced")
            key = ProducerKey(producer_id, producer.epoch)
            return await self._coordinator.initialize_at(
                key, producer.transactional_id, timeout_ms, is_new=found is not None
            )

    async def check_name(self, producer_id: int, transactional_id: str) -> None:
        """Raises if the transactional id is not the producer's."""
        known = self._coordinator.state.ids.get(transactional_id)
        if known != producer_id:
            raise InvalidRequest(problem=f"producer {producer_id} does not belong to {transactional_id!r}")

    async def heartbeat(self, producer_id: int, epoch: int) -> None:
        """The producer is alive: the timeout of its open transaction begins again, up to the longest time that a
        transaction may be open. Raises ProducerFenced."""
        self._coordinator.state.check(producer_id, epoch)
        found = self._coordinator.open.get(producer_id)
        if found is not None:
            self._coordinator.renew(found)

    # what is part of a transaction

    async def begin(self, producer_id: int, epoch: int) -> TransactionInfo:
        """Begins a transaction, or returns the one that has begun."""
        self._coordinator.join(producer_id, epoch)
        return describe(self._coordinator, self._streams, None, producer_id)

    async def add_partition(self, producer_id: int, epoch: int, topic_name: str, partition: int) -> None:
        """Optional: the first frame in a partition does the same."""
        self.publishing.add_partition(producer_id, epoch, topic_name, partition)

    async def publish(
        self, producer_id: int, epoch: int, topic: str, message: NewMessage, *, sequence: int | None = None
    ) -> Published:
        """One message. A sequence that was used before in its partition makes it a duplicate."""
        return await self.publishing.publish(producer_id, epoch, topic, message, sequence)

    async def add_offsets(self, producer_id: int, epoch: int, groups: Sequence[GroupOffsetCommit]) -> None:
        """The group checks the offsets now, and again when the transaction is committed."""
        transaction = self._coordinator.join(producer_id, epoch)
        await self._through(self._check_offsets(groups))
        await self._coordinator.touch(transaction)
        transaction.check_open()
        transaction.add_offsets(groups)

    async def add_acks(self, producer_id: int, epoch: int, acks: Sequence[LeasedAcks]) -> None:
        """Whether the leases still hold is checked when the transaction is committed."""
        transaction = self._coordinator.join(producer_id, epoch)
        check_runs([*transaction.acks, *acks])
        await self._coordinator.touch(transaction)
        transaction.check_open()
        transaction.acks += acks

    # the end

    async def commit(
        self,
        producers: Sequence[ProducerKey],
        *,
        key: str | None = None,
        description: str | None = None,
        offsets: Sequence[GroupOffsetCommit] = (),
        acks: Sequence[LeasedAcks] = (),
    ) -> Answer:
        """Makes everything of these producers visible at once; returns when readers see it.

        LeaseLost and errors of groups leave the transaction open: abort it. A repeat of the request, or another
        request with the same key, gets the same result. Raises CommitKeyConflict if the key was used for something
        else.
        """
        check_producers(producers)
        return await self._through(self._commits.commit(producers, commit_key(key, description), offsets, acks))

    async def abort(self, producers: Sequence[ProducerKey]) -> Answer:
        """Discards everything of these producers. A repeat of the request gets the same result."""
        check_producers(producers)
        return await self._through(self._abort(producers))

    async def _abort(self, producers: Sequence[ProducerKey]) -> Answer:
        async with self._coordinator.alone(*(each.producer_id for each in producers)):
            before = self._coordinator.state.repeated(producers, commit=False)
            if before is not None:
                return before
            return answer_of(await self._aborts.abort(ending(self._coordinator, producers), "request"))

    # looking

    async def list(self, *, skip: int = 0, limit: int = 1000) -> tuple[Sequence[TransactionInfo], int]:
        """Open transactions, then those whose markers are not everywhere yet; and how many there are."""
        found = list_transactions(self._coordinator, self._streams)
        return found[skip : skip + limit], len(found)

    async def producers(self, *, skip: int = 0, limit: int = 1000) -> tuple[Sequence[ProducerInfo], int]:
        """Those that were used last come first; and how many there are. None if transactions cannot be read."""
        if self._coordinator.problem is not None:
            return [], 0
        return list_producers(self._coordinator, skip=skip, limit=limit), len(self._coordinator.state.producers)

    async def describe(self, transactional_id: str | None, producer_id: int) -> TransactionInfo:
        """The producer's open transaction, or the one that ended last. Raises TransactionNotFound."""
        return describe(self._coordinator, self._streams, transactional_id, producer_id)

    @property
    def seconds(self) -> Histogram:
        """From the beginning of transactions to their decision, since the broker started."""
        return self._coordinator.seconds

    async def stats(self) -> TransactionStats:
        coordinator = self._coordinator
        if coordinator.problem is not None:
            return TransactionStats(0, 0, 0, 0.0)
        return TransactionStats(
            len(coordinator.open),
            coordinator.state.commits,
            coordinator.state.aborts,
            coordinator.average_duration_ms,
        )

    # inside

    async def _through(self, work: Coroutine[Any, Any, T]) -> T:
        """Completes even if the caller stops waiting: a decision that has begun is made."""
        return await self._to_the_end.run(work)

    async def _check_offsets(self, groups: Sequence[GroupOffsetCommit]) -> None:
        check_offset_count(groups)
        own = await self.owners.check_offsets(groups)
        async with self._streams.groups.locks.hold(*(group.group for group in own)):
            await check_held_offsets(self._streams, own)

    async def _maintain(self, failures: Failures) -> None:
        self._ticks += 1
        with failures.of("the timeout of transactions"):
            self._aborts.begin_overdue()
        if self._ticks % _MAINTENANCE_TICKS == 0:
            with failures.of("the end of transactions"):
                await self._applier.flush()
            with failures.of("maintenance of transactions"):
                await self._coordinator.maintain()
