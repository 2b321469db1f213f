"""Applies a decision: markers in its partitions, offsets of groups, acks of leases.

Everything is tried immediately. What fails is tried again until it is done, also after a restart, and blocks nothing.
What other workers own, they are told.
"""

import asyncio
import logging

import msgspec

from quiver.model.errors import QuiverError
from quiver.model.transaction import GroupOffsetCommit
from quiver.partition.partition import Partition
from quiver.queues.settle import TransactionAcks
from quiver.system.backoff import Backoff
from quiver.transactions.coordinator import Coordinator
from quiver.transactions.events import Decided, Participant, ProducerOutcome
from quiver.transactions.owners.asking import AskedOwners
from quiver.transactions.owners.own_units import Marker, OwnUnits, is_strange, synced
from quiver.transactions.owners.port import Finish

logger = logging.getLogger(__name__)

_FIRST_PAUSE_SECONDS, _LONGEST_PAUSE_SECONDS = 0.1, 5.0


class _Work:
    """What is left to do for a decision."""

    def __init__(
        self, decided: Decided, finishes: dict[int, Finish], acks: TransactionAcks | None, *, at_start: bool
    ) -> None:
        self.decided = decided
        """As far as this worker carries it out."""
        self.finishes = finishes
        """What other workers are told, until they have done it."""
        self.told = dict(finishes)
        """The same, until what they have written is on disk."""
        self.has_prepared = at_start
        """This worker may have prepared its part for another coordinator, when it was one of more or fewer."""
        self.acks = acks
        self.has_acks = bool(decided.acks)
        self.offsets = list(decided.offsets)
        self.markers: list[Marker] = [
            (outcome, participant) for outcome in decided.outcomes for participant in outcome.participants
        ]
        self.marked: dict[Partition, None] = {}
        """Partitions whose marker is written but may not be on disk yet."""

    @property
    def is_done(self) -> bool:
        return not (self.markers or self.offsets or self.has_acks or self.has_prepared or self.finishes)

    def outcomes_left(self) -> list[ProducerOutcome]:
        left: dict[int, list[Participant]] = {}
        for outcome, participant in self.markers:
            left.setdefault(outcome.producer_id, []).append(participant)
        return [
            msgspec.structs.replace(outcome, participants=left[outcome.producer_id])
            for outcome in self.decided.outcomes
            if outcome.producer_id in left
        ]


class DecisionApplier:
    def __init__(self, coordinator: Coordinator, units: OwnUnits, owners: AskedOwners) -> None:
        self._coordinator = coordinator
        self.units = units
        self._owners = owners
        self._done: list[_Work] = []
        self._retries: set[asyncio.Task[None]] = set()

    async def apply(self, decided: Decided, acks: TransactionAcks | None = None, *, at_start: bool = False) -> None:
        """Returns when everything was tried once. At start-up acks are taken from the decision, and other workers are
        told in the background: they may wait for this one."""
        work = _Work(*self._owners.finishes(decided), acks, at_start=at_start)
        await (self._attempt_own(work) if at_start else self._attempt(work))
        if work.is_done:
            self._done.append(work)
            return
        task = asyncio.get_running_loop().create_task(self._retry(work))
        self._retries.add(task)
        task.add_done_callback(self._retries.discard)

    async def flush(self) -> None:
        """Syncs what is written; decisions that are done are then completely applied."""
        works, self._done = self._done, []
        marked = dict.fromkeys(partition for work in works for partition in work.marked)
        on_disk = {found for found in await asyncio.gather(*map(synced, marked)) if found is not None}
        # What could not be synced stays open in the journal, and the next start applies it again.
        marked_works = [work for work in works if work.marked.keys() <= on_disk]
        synced_workers = await self._synced_workers(marked_works)
        for work in marked_works:
            work.told = {worker: told for worker, told in work.told.items() if worker not in synced_workers}
            if work.told:
                self._done.append(work)  # that worker is asked again
            else:
                self._coordinator.completed(work.decided.id)

    async def _synced_workers(self, works: list[_Work]) -> set[int]:
        """The other workers that have the markers of all these decisions on disk."""
        outcomes: dict[int, list[ProducerOutcome]] = {}
        for work in works:
            for worker, finish in work.told.items():
                outcomes.setdefault(worker, []).extend(finish.outcomes)
        answers = await asyncio.gather(*(self._owners.sync(worker, found) for worker, found in outcomes.items()))
        return {worker for worker, is_synced in zip(outcomes, answers, strict=True) if is_synced}

    async def stop(self) -> None:
        tasks = list(self._retries)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self.flush()

    async def _attempt(self, work: _Work) -> None:
        """Does what can be done."""
        if work.finishes:
            await asyncio.gather(self._attempt_own(work), *(self._tell(work, worker) for worker in work.finishes))
        else:
            await self._attempt_own(work)

    async def _attempt_own(self, work: _Work) -> None:
        if work.has_prepared:
            await self._end_prepared(work)
        if not (work.offsets or work.has_acks):  # then tasks would only cost time
            await self._put_markers(work)
            return
        offsets = (self._put_offsets(work, group) for group in work.offsets)
        await asyncio.gather(self._put_markers(work), *offsets, self._put_acks(work))

    async def _end_prepared(self, work: _Work) -> None:
        try:
            await self.units.end_prepared(work.decided.id, commit=work.decided.commit)
        except Exception as error:
            logger.warning("transaction %d stays prepared: %s", work.decided.id, error, exc_info=is_strange(error))
        else:
            work.has_prepared = False

    async def _put_markers(self, work: _Work) -> None:
        marked = await self.units.put_markers(work.decided.id, work.markers, commit=work.decided.commit)
        work.markers = marked.left
        work.marked.update(dict.fromkeys(marked.partitions))

    async def _put_offsets(self, work: _Work, group: GroupOffsetCommit) -> None:
        if await self.units.put_offsets(work.decided.id, group):
            work.offsets.remove(group)

    async def _put_acks(self, work: _Work) -> None:
        if not work.has_acks:
            return
        try:
            if work.acks is not None:
                await work.acks.finish()
            else:
                await self.units.repeat_acks(work.decided.acks)
        except Exception as error:
            logger.warning("acks of transaction %d wait: %s", work.decided.id, error, exc_info=is_strange(error))
        else:
            work.has_acks = False

    async def _tell(self, work: _Work, worker: int) -> None:
        if await self._owners.finish(worker, work.finishes[worker]):
            del work.finishes[worker]

    async def _retry(self, work: _Work) -> None:
        backoff, is_noted = Backoff(_FIRST_PAUSE_SECONDS, _LONGEST_PAUSE_SECONDS), False
        while not work.is_done:
            if not (is_noted or work.offsets or work.has_acks or work.told):
                try:
                    await self._coordinator.note_markers_left(work.decided, work.outcomes_left())
                    is_noted = True
                except (QuiverError, OSError) as error:
                    logger.warning("what is left of transaction %d could not be recorded: %s", work.decided.id, error)
            await asyncio.sleep(backoff.next_seconds())
            await self._attempt(work)
        self._done.append(work)
