"""Commits: everything of some producers takes effect, or nothing does."""

from collections.abc import Sequence

from quiver.model.errors import PartitionOffline
from quiver.model.transaction import GroupOffsetCommit, LeasedAcks, ProducerKey
from quiver.queues.settle import TransactionAcks
from quiver.transactions.coordinator import CommitContent, Coordinator
from quiver.transactions.decision_applier import DecisionApplier
from quiver.transactions.events import Decided
from quiver.transactions.limits import check_offset_count, check_runs
from quiver.transactions.open_transaction import OpenTransaction, by_group
from quiver.transactions.owners.asking import AskedOwners, Parts
from quiver.transactions.owners.offset_checks import check_held_offsets
from quiver.transactions.producer import Answer, CommitKey


class TransactionCommits:
    def __init__(self, coordinator: Coordinator, applier: DecisionApplier, owners: AskedOwners) -> None:
        self._coordinator = coordinator
        self._applier = applier
        self._owners = owners
        self._streams, self._queues = applier.units.streams, applier.units.queues

    async def commit(
        self,
        producers: Sequence[ProducerKey],
        key: CommitKey | None,
        offsets: Sequence[GroupOffsetCommit],
        acks: Sequence[LeasedAcks],
    ) -> Answer:
        """As `Transactions.commit`; runs to its end even if nobody waits for it."""
        state = self._coordinator.state
        names = [] if key is None else [f"key {key.name}"]
        async with self._coordinator.alone(*names, *(each.producer_id for each in producers)):
            before = None if key is None else state.keyed(key)
            if before is None:
                before = state.repeated(producers, commit=True)
            if before is not None:
                return before
            transactions = ending(self._coordinator, producers)
            try:
                for each in transactions:
                    await each.frames.idle()
                    each.frames.check_whole()
                decided = await self._decide(transactions, key, _joint(transactions, offsets, acks))
            except BaseException:
                for each in transactions:
                    each.is_ending = each.is_in_doubt
                raise
            return answer_of(decided)

    async def _decide(
        self, transactions: Sequence[OpenTransaction], key: CommitKey | None, joint: OpenTransaction
    ) -> Decided:
        """Owners of what is not this worker's own prepare first, all at the same time."""
        check_runs(joint.acks)
        check_offset_count(joint.offsets)
        content = CommitContent(self._coordinator.new_decision(), key, by_group(joint.offsets), joint.acks)
        parts = self._owners.split(content.decision, transactions, joint)
        if not parts.others:
            return await self._decide_here(transactions, content, parts)
        # Two transactions with the same groups would each hold one that the other needs.
        names = {f"group {each.group}" for part in parts.others.values() for each in part.offsets}
        async with self._coordinator.alone(*names):
            self._coordinator.preparing(content.decision)
            try:
                await self._owners.prepare(self._coordinator.term, parts.others)
                return await self._decide_here(transactions, content, parts)
            except BaseException:
                await self._give_up(transactions, content.decision, parts)
                raise

    async def _give_up(self, transactions: Sequence[OpenTransaction], decision: int, parts: Parts) -> None:
        """Unless it is decided, or may be: the transactions stay open, and their producers abort them."""
        if self._coordinator.outcome(decision) is None and not any(each.is_in_doubt for each in transactions):
            self._coordinator.given_up(decision)
            await self._owners.release(parts.others)

    async def _decide_here(
        self, transactions: Sequence[OpenTransaction], content: CommitContent, parts: Parts
    ) -> Decided:
        # Assignments do not change between the check and the new offsets.
        async with self._streams.groups.locks.hold(*(group.group for group in parts.own_offsets)):
            await check_held_offsets(self._streams, parts.own_offsets)
            prepared = await self._queues.prepare_acks(parts.own_acks) if parts.own_acks else None
            decided = await self._write(transactions, content, prepared)
            await self._applier.apply(decided, prepared)
            return decided

    async def _write(
        self, transactions: Sequence[OpenTransaction], content: CommitContent, prepared: TransactionAcks | None
    ) -> Decided:
        try:
            return await self._coordinator.decide(transactions, content)
        except PartitionOffline:
            for each in transactions:
                each.is_in_doubt = True
            raise
        except BaseException:
            if prepared is not None:
                prepared.take_back()
            raise


def ending(coordinator: Coordinator, producers: Sequence[ProducerKey]) -> list[OpenTransaction]:
    """The open transactions of producers, marked as ending: they accept nothing more."""
    for each in producers:
        coordinator.state.check(each.producer_id, each.epoch)
    found = [coordinator.join(each.producer_id, each.epoch) for each in producers]
    for transaction in found:
        transaction.is_ending = True
    return found


def answer_of(decided: Decided) -> Answer:
    return Answer(decided.commit, [ProducerKey(each.next_id, each.next_epoch) for each in decided.outcomes])


def _joint(
    transactions: Sequence[OpenTransaction], offsets: Sequence[GroupOffsetCommit], acks: Sequence[LeasedAcks]
) -> OpenTransaction:
    """Stands for all of them together, with what comes with the commit."""
    joint = OpenTransaction(-1, -1, transactional_id=None, timeout_ms=0)
    for each in transactions:
        joint.add_offsets(each.offsets)
        joint.acks += each.acks
    joint.add_offsets(offsets)
    joint.acks += acks
    return joint
