"""The coordinator's side of transactions that touch what other workers own."""

import asyncio
import logging
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import msgspec

from quiver.model.errors import QuiverError, ShuttingDown, WorkerUnavailable
from quiver.model.transaction import GroupOffsetCommit, LeasedAcks, ProducerKey
from quiver.system.backoff import Backoff
from quiver.transactions.events import Decided, Participant, ProducerOutcome
from quiver.transactions.open_transaction import OpenTransaction
from quiver.transactions.owners.port import Finish, OpenInLog, Prepare, TransactionOwners

logger = logging.getLogger(__name__)

_PREPARE_SECONDS = 5.0
"""How long a commit waits for an owner that is down: it is back within half a second."""
_FIRST_PAUSE_SECONDS, _LONGEST_PAUSE_SECONDS = 0.02, 0.5


class Parts(NamedTuple):
    """What a commit touches, by owner."""

    own_offsets: list[GroupOffsetCommit]
    own_acks: list[LeasedAcks]
    others: dict[int, Prepare]


class AskedOwners:
    """Without others, everything is this worker's own, and nothing here waits."""

    def __init__(self) -> None:
        self.others: TransactionOwners | None = None
        """Set before the coordinator starts, if there are other workers."""
        self._is_stopping = False

    def stop(self) -> None:
        """Others are no longer told of decisions, nor asked again: they stop too. The next start tells them."""
        self._is_stopping = True

    # a commit

    def split(self, decision: int, transactions: Sequence[OpenTransaction], joint: OpenTransaction) -> Parts:
        """`joint` has the offsets and acks of all."""
        others = self.others
        if others is None:
            return Parts(joint.offsets, joint.acks, {})
        own = Prepare(decision, [], [], [])
        found: dict[int, Prepare] = {}

        def part_of(worker: int | None) -> Prepare:
            return own if worker is None else found.setdefault(worker, Prepare(decision, [], [], []))

        for each in transactions:
            for worker in {others.of_partition(log.topic_id, log.partition) for log in each.participants}:
                part_of(worker).producers.append(ProducerKey(each.producer_id, each.epoch))
        for offsets in joint.offsets:
            part_of(others.of_group(offsets.group)).offsets.append(offsets)
        for acks in joint.acks:
            part_of(others.of_partition(acks.topic_id, acks.partition)).acks.append(acks)
        return Parts(own.offsets, own.acks, found)

    async def prepare(self, term: int, parts: dict[int, Prepare]) -> None:
        """All of them at the same time. Raises the error of one that refuses, or of one that does not respond."""
        asked = (self._prepare(worker, term, part) for worker, part in parts.items())
        outcomes = await asyncio.gather(*asked, return_exceptions=True)
        errors = [outcome for outcome in outcomes if outcome is not None]
        if errors:
            raise min(errors, key=lambda error: isinstance(error, WorkerUnavailable))

    async def _prepare(self, worker: int, term: int, part: Prepare) -> None:
        others = self._others()
        backoff, until = Backoff(_FIRST_PAUSE_SECONDS, _LONGEST_PAUSE_SECONDS), _now() + _PREPARE_SECONDS
        while True:
            try:
                await others.prepare(worker, term, part)
                return
            except WorkerUnavailable:
                if _now() >= until or self._is_stopping:
                    raise
            await asyncio.sleep(backoff.next_seconds())

    async def release(self, parts: dict[int, Prepare]) -> None:
        """The transaction stays open. An owner that cannot be told asks, and is told that nothing was decided."""
        others = self._others()
        outcomes = await asyncio.gather(
            *(others.release(worker, part) for worker, part in parts.items()), return_exceptions=True
        )
        for error in outcomes:
            if error is not None:
                logger.info("an owner lets go of a transaction when it asks for the outcome: %s", error)

    async def check_offsets(self, groups: Sequence[GroupOffsetCommit]) -> list[GroupOffsetCommit]:
        """Those of other owners are checked by them; returns the others."""
        others = self.others
        if others is None:
            return list(groups)
        own: list[GroupOffsetCommit] = []
        by_worker: dict[int, list[GroupOffsetCommit]] = {}
        for group in groups:
            worker = others.of_group(group.group)
            (own if worker is None else by_worker.setdefault(worker, [])).append(group)
        await asyncio.gather(*(others.check_offsets(worker, found) for worker, found in by_worker.items()))
        return own

    # a decision

    def finishes(self, decided: Decided) -> tuple[Decided, dict[int, Finish]]:
        """The part of a decision that this worker carries out, and what the others get."""
        others = self.others
        if others is None:
            return decided, {}
        found: dict[int, Finish] = {}
        own = msgspec.structs.replace(decided, outcomes=[], offsets=[], acks=[])

        def part_of(worker: int | None) -> Decided | Finish:
            if worker is None:
                return own
            return found.setdefault(worker, Finish(decided.id, decided.commit, [], [], []))

        for outcome in decided.outcomes:
            for worker, logs in self._by_owner(outcome.participants).items():
                part_of(worker).outcomes.append(msgspec.structs.replace(outcome, participants=logs))
        for offsets in decided.offsets:
            part_of(others.of_group(offsets.group)).offsets.append(offsets)
        for acks in decided.acks:
            part_of(others.of_partition(acks.topic_id, acks.partition)).acks.append(acks)
        return own, found

    def _by_owner(self, participants: Iterable[Participant]) -> dict[int | None, list[Participant]]:
        found: dict[int | None, list[Participant]] = {}
        for log in participants:
            found.setdefault(self._others().of_partition(log.topic_id, log.partition), []).append(log)
        return found

    async def finish(self, worker: int, finish: Finish) -> bool:
        """Whether that worker has done all of it."""
        if self._is_stopping:
            return False
        try:
            return await self._others().finish(worker, finish)
        except QuiverError as error:
            logger.info("worker %d is told the end of transaction %d later: %s", worker, finish.decision, error)
            return False

    async def sync(self, worker: int, outcomes: Iterable[ProducerOutcome]) -> bool:
        """Whether the markers of finished decisions are on disk there."""
        if self._is_stopping:
            return False
        participants = list(dict.fromkeys(log for outcome in outcomes for log in outcome.participants))
        try:
            return not participants or await self._others().sync(worker, participants)
        except QuiverError as error:
            logger.info("markers at worker %d are synced later: %s", worker, error)
            return False

    # a new term

    async def opened(self, term: int) -> list[OpenInLog]:
        """What is open in the logs of other workers. Returns when all have responded."""
        others = self.others
        if others is None:
            return []
        found = await asyncio.gather(*(self._opened(worker, term) for worker in others.workers))
        return [each for opened in found for each in opened]

    async def _opened(self, worker: int, term: int) -> list[OpenInLog]:
        backoff = Backoff(_FIRST_PAUSE_SECONDS, _LONGEST_PAUSE_SECONDS)
        while True:
            try:
                return await self._others().opened(worker, term)
            except QuiverError as error:
                logger.info("transactions wait for worker %d: %s", worker, error)
            if self._is_stopping:
                raise ShuttingDown()
            await asyncio.sleep(backoff.next_seconds())

    def _others(self) -> TransactionOwners:
        assert self.others is not None, "there are parts of others only if there are others"
        return self.others


def _now() -> float:
    return asyncio.get_running_loop().time()
