"""Transactions on their journal: who may use which epoch, what is open, and what was decided.

Everything here is on disk before anybody is told of it. `DecisionApplier` carries out decisions: markers, offsets,
acks.
"""

import asyncio
from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import NamedTuple

import msgspec

from quiver.model.errors import InvalidRequest, QuiverError, ShuttingDown, TransactionNotFound, UnknownProducer
from quiver.model.limits import DAY_MS, TRANSACTION_OPEN_MS, TRANSACTIONAL_ID_LENGTH
from quiver.model.times import format_duration
from quiver.model.transaction import GroupOffsetCommit, LeasedAcks, ProducerKey
from quiver.partition.partition import Appended
from quiver.producers.service import ProducerIds
from quiver.records.header import COLUMN_DELIVER_AT, FrameHeader
from quiver.storage.journaled_state import JournaledState
from quiver.storage.port import Storage
from quiver.system.clock import Clock, SteadyClock
from quiver.system.key_locks import HeldKeys, KeyLocks
from quiver.telemetry.histogram import Histogram
from quiver.transactions.events import (
    CODEC,
    Completed,
    Decided,
    Event,
    Forgotten,
    Initialized,
    MarkersLeft,
    Participant,
    ProducerOutcome,
    Reason,
    Touched,
)
from quiver.transactions.open_transaction import OpenTransaction
from quiver.transactions.owners.frames import Append
from quiver.transactions.producer import CommitKey, Producer
from quiver.transactions.state import LAST_EPOCH, TransactionState

LOG_ID = "internal/transactions"
_NAMED_KEPT_MS = 7 * DAY_MS
_UNNAMED_KEPT_MS = DAY_MS
"""How long an unused producer is remembered, with a transactional id and without."""
_TERM_BITS = 32
_TURN = 256
"""After this many producers, others get a turn on the event loop."""


class CommitContent(NamedTuple):
    """What is committed, apart from messages."""

    decision: int
    """Its number, by `new_decision`."""
    key: CommitKey | None
    offsets: Sequence[GroupOffsetCommit]
    acks: Sequence[LeasedAcks]

    def decided(self, at_ms: int, outcomes: list[ProducerOutcome]) -> Decided:
        return Decided(
            self.decision,
            True,
            "request",
            at_ms,
            outcomes,
            self.key.name if self.key else None,
            list(self.offsets),
            list(self.acks),
            description=self.key.description if self.key else None,
        )


class Coordinator:
    """Belongs to one event loop. Only one task at a time ends a producer's transaction: see `alone`."""

    def __init__(self, producer_ids: ProducerIds, *, clock: Clock, open_max_ms: int = TRANSACTION_OPEN_MS) -> None:
        self._clock = clock
        self._steady_clock = SteadyClock(clock)
        self._open_max_ms = open_max_ms
        """No transaction stays open for longer, whatever its producer asks: readers of committed messages wait for
        it."""
        self._producer_ids = producer_ids
        self._state = TransactionState()
        self.journaled = JournaledState(LOG_ID, self._state, CODEC, clock=clock)
        self.open: dict[int, OpenTransaction] = {}
        """By producer id; always of the producer's current epoch."""
        self._locks = KeyLocks()
        self.term = 0
        """Names this run of the process: later ones have higher terms."""
        self.waits_for: QuiverError | None = None
        """Why nothing can be said of transactions yet, after a start."""
        self._last_decision = 0
        self._undecided: set[int] = set()
        """Decisions that owners have prepared, or may have."""
        self._completed: list[int] = []
        """Decisions that are completely applied; the next record says so."""
        self._forgetting: frozenset[int] = frozenset()
        """Producers that a record which is being written forgets: nobody could end a transaction of theirs."""
        self._duration_ms = self._decided = 0
        self.seconds = Histogram()
        """From the beginning of transactions to their decision."""
        self._closing = False

    async def start(self, storage: Storage, epoch: int) -> None:
        """If the journal is damaged, `problem` is set."""
        self.term = epoch
        await self.journaled.open(storage, epoch)

    def check_ready(self) -> None:
        """Raises if it is not known yet what was open when the process stopped."""
        if self.waits_for is not None:
            raise self.waits_for

    @property
    def problem(self) -> QuiverError | None:
        """Why transactions are not available; every request raises it."""
        return self.journaled.problem

    @property
    def state(self) -> TransactionState:
        self.journaled.check()
        return self._state

    async def close(self) -> None:
        self._closing = True
        if self._completed:
            # If they cannot be written, for example on a full disk, the next start applies them again, which changes
            # nothing.
            with suppress(QuiverError):
                await self.journaled.append(Completed(self._completed))
        await self.journaled.close()

    def alone(self, *keys: int | str) -> HeldKeys:
        """While it is held, nobody else ends a transaction of these producers or uses these names."""
        return self._locks.hold(*keys)

    def now_ms(self) -> int:
        return self._clock.now_ms()

    # producers

    async def new_producer(self) -> ProducerKey:
        """A producer without transactions."""
        return ProducerKey(await self._producer_ids.new(), 0)

    async def initialize(self, transactional_id: str | None, timeout_ms: int) -> ProducerKey:
        """A new producer."""
        key = await self.new_producer()
        return await self.initialize_at(key, transactional_id, timeout_ms, is_new=True)

    async def initialize_at(
        self, key: ProducerKey, transactional_id: str | None, timeout_ms: int, *, is_new: bool
    ) -> ProducerKey:
        """A producer without an open transaction begins again: at this epoch if nobody was told of it, else at the
        next."""
        if not is_new:
            key = await self._following(key.producer_id, key.epoch)
        now_ms = self._clock.now_ms()
        await self._append(Initialized(key.producer_id, key.epoch, transactional_id, timeout_ms, now_ms))
        return key

    async def _following(self, producer_id: int, epoch: int) -> ProducerKey:
        if epoch < LAST_EPOCH:
            return ProducerKey(producer_id, epoch + 1)
        return await self.new_producer()

    def check_init(self, transactional_id: str | None, timeout_ms: int) -> None:
        """Raises InvalidRequest for a transactional id or timeout that is not allowed."""
        if transactional_id is not None and not 1 <= len(transactional_id) <= TRANSACTIONAL_ID_LENGTH:
            raise InvalidRequest(problem=f"a transactional id has 1 to {TRANSACTIONAL_ID_LENGTH} characters")
        if not 1 <= timeout_ms <= self._open_max_ms:
            longest = format_duration(self._open_max_ms)
            raise InvalidRequest(
                problem=f"a transaction timeout is 1 ms to {longest} here, not {format_duration(timeout_ms)}; for"
                " longer transactions set transaction_max of the broker"
            )

    def producer(self, transactional_id: str | None, producer_id: int) -> tuple[int, Producer]:
        """Raises TransactionNotFound if there is none."""
        if transactional_id is not None:
            producer_id = self.state.ids.get(transactional_id, -1)
        found = self.state.producers.get(producer_id)
        if found is None:
            raise TransactionNotFound(producer=transactional_id or producer_id)
        return producer_id, found

    def was_given(self, producer_id: int, epoch: int) -> bool | None:
        """Whether a producer has reached an epoch; None if it is not transactional."""
        found = None if self.problem is not None else self._state.producers.get(producer_id)
        return None if found is None else epoch <= found.epoch <= LAST_EPOCH

    # what is open

    def join(self, producer_id: int, epoch: int) -> OpenTransaction:
        """The producer's open transaction, begun if necessary. Raises UnknownProducer, ProducerFenced,
        TransactionConflict."""
        found = self.open.get(producer_id)
        if found is None or found.epoch != epoch:
            self.check_ready()
            found = self._begin(producer_id, epoch)
        found.check_open()
        return found

    def _begin(self, producer_id: int, epoch: int) -> OpenTransaction:
        producer = self.state.check(producer_id, epoch)
        if producer_id in self._forgetting:
            raise UnknownProducer(producer_id=producer_id)
        if self._closing:
            raise ShuttingDown()
        begun = OpenTransaction(
            producer_id, epoch, transactional_id=producer.transactional_id, timeout_ms=producer.timeout_ms
        )
        begun.started_at_ms = self._clock.now_ms()
        begun.last_deadline_ms = round(self._clock.monotonic() * 1000) + self._open_max_ms
        self.open[producer_id] = begun
        self.renew(begun)
        return begun

    def write(self, header: FrameHeader, topic_id: int, partition: int, append: Append) -> "asyncio.Future[Appended]":
        """A frame for a log of this worker, as part of its producer's transaction."""
        transaction = self.join(header.producer_id, header.producer_epoch)
        participant = Participant(topic_id, partition, bool(header.columns & COLUMN_DELIVER_AT))
        transaction.participants[participant] = None
        return transaction.frames.write(participant, header.base_sequence, append)

    def renew(self, transaction: OpenTransaction) -> None:
        """Its timeout begins again, up to the longest time that a transaction may be open."""
        if not transaction.is_left_over:
            deadline_ms = round(self._clock.monotonic() * 1000) + transaction.timeout_ms
            transaction.deadline_ms = min(deadline_ms, transaction.last_deadline_ms)

    def overdue(self) -> list[OpenTransaction]:
        """Transactions that are open for longer than allowed."""
        now_ms = round(self._clock.monotonic() * 1000)
        return [each for each in self.open.values() if each.deadline_ms <= now_ms and not each.is_ending]

    async def touch(self, transaction: OpenTransaction) -> None:
        """Records once that it has offsets or acks, so that a restart ends the epoch with the transaction."""
        producer = self.state.check(transaction.producer_id, transaction.epoch)
        if not producer.is_touched:
            await self._append(Touched(transaction.producer_id, transaction.epoch))

    # decisions

    def new_decision(self) -> int:
        """A number that no decision has had, in any term: an owner may have prepared for one that was not made."""
        self._last_decision = max(self._last_decision, self.state.last_decision, self.term << _TERM_BITS) + 1
        return self._last_decision

    def preparing(self, decision: int) -> None:
        """Owners are asked to prepare: until it is decided or `given_up`, its outcome is open."""
        self._undecided.add(decision)

    def given_up(self, decision: int) -> None:
        self._undecided.discard(decision)

    def outcome(self, decision: int) -> bool | None:
        """Whether it is to commit; None while it is not decided. What is not known was not committed."""
        decided = self.state.unfinished.get(decision)
        if decided is None and decision in self._undecided:
            return None
        return decided is not None and decided.commit

    async def decide(
        self, transactions: Sequence[OpenTransaction], commit: CommitContent | None = None, reason: Reason = "request"
    ) -> Decided:
        """Commits or, without `commit`, aborts transactions without frames in flight; the caller is `alone` with
        their producers."""
        outcomes = []
        for number, each in enumerate(transactions):
            outcomes.append(await self._outcome_of(each.producer_id, each.epoch, each.participants))
            await _give_way(number)
        now_ms = self._clock.now_ms()
        if commit is None:
            decided = Decided(self.new_decision(), False, reason, now_ms, outcomes)
        else:
            decided = commit.decided(now_ms, outcomes)
        decided = await self._decide(decided)
        for each in transactions:
            if self.open.get(each.producer_id) is each:
                del self.open[each.producer_id]
            self._duration_ms += max(0, decided.at_ms - each.started_at_ms)
            self._decided += 1
            self.seconds.observe(max(0, decided.at_ms - each.started_at_ms) / 1000)
        return decided

    async def abort_left_over(self, found: dict[tuple[int, int], list[Participant]]) -> Decided | None:
        """Aborts what was open when the broker stopped, and ends those epochs: at start-up.

        If that cannot be written, they stay open, accept nothing more, and are overdue.
        """
        current = {
            (producer_id, producer.epoch)
            for producer_id, producer in self.state.producers.items()
            if producer.is_touched or (producer_id, producer.epoch) in found
        }
        if not current:
            return None
        try:
            outcomes = [await self._outcome_of(*key, found.get(key, ())) for key in sorted(current)]
            decided = Decided(self.new_decision(), False, "restart", self._clock.now_ms(), outcomes)
            return await self._decide(decided)
        except (QuiverError, OSError):
            for key in current:
                transaction = self._begin(*key)
                transaction.participants = dict.fromkeys(found.get(key, ()))
                transaction.is_left_over, transaction.deadline_ms = True, 0
            raise

    async def _outcome_of(self, producer_id: int, epoch: int, participants: Iterable[Participant]) -> ProducerOutcome:
        self.state.check(producer_id, epoch)
        following = await self._following(producer_id, epoch)
        return ProducerOutcome(producer_id, epoch, following.producer_id, following.epoch, list(participants))

    async def _decide(self, decided: Decided) -> Decided:
        completed, self._completed = self._completed, []
        decided = msgspec.structs.replace(decided, completed=completed)
        try:
            await self._append(decided)
        except BaseException:
            self._completed += completed
            raise
        self._undecided.discard(decided.id)
        return decided

    async def note_markers_left(self, decided: Decided, outcomes: list[ProducerOutcome]) -> None:
        await self._append(MarkersLeft(decided.id, outcomes))

    def completed(self, id: int) -> None:
        """The decision is applied everywhere and on disk. The next record says so."""
        self._completed.append(id)

    @property
    def completed_ids(self) -> Sequence[int]:
        """Decisions that are completely applied, although no record says so yet."""
        return self._completed

    @property
    def average_duration_ms(self) -> float:
        """Durations from the beginning to the decision, since the broker started."""
        return self._duration_ms / self._decided if self._decided else 0.0

    # maintenance

    async def maintain(self) -> None:
        """Records completed decisions, forgets producers that were not used for days, takes a snapshot if one is
        due."""
        if self._completed:
            completed, self._completed = self._completed, []
            try:
                await self._append(Completed(completed))
            except BaseException:
                self._completed += completed
                raise
        now_ms = self._steady_clock.earlier_ms()
        silent = self.state.silent_since(now_ms - _NAMED_KEPT_MS, named=True)
        silent += self.state.silent_since(now_ms - _UNNAMED_KEPT_MS, named=False)
        if gone := [producer_id for producer_id in silent if producer_id not in self.open]:
            self._forgetting = frozenset(gone)
            try:
                await self._append(Forgotten(gone))
            finally:
                self._forgetting = frozenset()
        await self.journaled.snapshot_if_due()

    async def _append(self, event: Event) -> None:
        if self._closing:
            raise ShuttingDown()
        await self.journaled.append(event)


async def _give_way(number: int) -> None:
    """Gives others a turn on the event loop now and then."""
    if number % _TURN == _TURN - 1:
        await asyncio.sleep(0)
