"""Acknowledgements as part of a transaction: what is acked with it, and what it adds to the dead letters."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from quiver.gateways.queen.acks.held_acks import (
    LEASE_LOST,
    NOT_FOUND,
    Ack,
    AckFinder,
    AckPlace,
    AckResult,
    HeldAcks,
    by_lease,
)
from quiver.gateways.queen.acks.rules import Mark, Outcome, Plan
from quiver.gateways.queen.identifiers import LeaseId, parse_lease_id
from quiver.model.settlement import NACK, SettleRequest
from quiver.model.transaction import LeasedAcks

if TYPE_CHECKING:
    from quiver.queues.service import Received
    from quiver.routing.facade import Facade


class TransactionAcks:
    """The acknowledgements of one transaction. `release` is called when it has ended, however it did."""

    def __init__(self, broker: "Facade", finder: AckFinder) -> None:
        self._broker = broker
        self._finder = finder
        self._received: list[Received] = []
        self.planned: list[tuple[HeldAcks, Plan]] = []
        self.error: str | None = None
        """Why the transaction must not be committed."""
        self.offsets: dict[int, tuple[int, int]] = {}
        """Partition and offset of those that were found, by the index of the acknowledgement."""

    async def find(self, acks: Sequence[Ack], required: Sequence[str]) -> list[AckResult]:
        """A result for each. A message that failed becomes a dead letter with the transaction."""
        final = _of_one_lease([_final(ack) for ack in acks])
        leases = [parse_lease_id(text) for text in required]
        fence = (
            {each.lease_id for lease in leases if lease is not None for each in lease.places} if required else None
        )
        results: dict[int, AckResult] = {}
        for indexes in by_lease(final):
            found = await self._find([final[index] for index in indexes], indexes, fence)
            results.update(zip(indexes, found, strict=True))
        self.error = next((each.error for each in results.values() if each.error is not None), None)
        acked = {each.held.lease_id for each, _ in self.planned}
        for lease in leases:
            if lease is None or not await self._holds(lease, acked):
                self.error = LEASE_LOST
        return [results[index] for index in range(len(acks))]

    async def _find(self, acks: Sequence[Ack], indexes: Sequence[int], fence: set[int] | None) -> list[AckResult]:
        """Without a lease of their own, messages must be held by one of the fence, if there is one."""
        place = self._finder.place(acks[0])
        if isinstance(place, str):
            return [AckResult(place)] * len(acks)
        held = await self._finder.find(place, acks)
        if place.lease is None and fence is not None:
            held = [one for one in held if one.held.lease_id in fence]
            if not held:
                return [place.result(LEASE_LOST)] * len(acks)
        if not held and place.lease is None and place.key is not None:
            received = await self._finder.take(place)
            self._received += received
            held = self._finder.taken(place, acks, received)
        results: dict[int, AckResult] = {}
        for one in held:
            results |= self._plan(one, acks, indexes)
        for index, ack in enumerate(acks):
            if index not in results:
                results[index] = await self._unknown(place, ack)
        return [results[index] for index in range(len(acks))]

    def _plan(self, one: HeldAcks, acks: Sequence[Ack], indexes: Sequence[int]) -> dict[int, AckResult]:
        planned = one.plan(acks, is_last_attempt=False)
        self.planned.append((one, planned))
        self.offsets |= {indexes[index]: (one.held.partition, offset) for index, offset in one.offsets.items()}
        return {
            index: one.place.result(None, is_released=planned.is_released, is_dead=offset in planned.dead)
            for index, offset in one.offsets.items()
        }

    async def _unknown(self, place: AckPlace, ack: Ack) -> AckResult:
        """A lease that is named is a fence: what it no longer holds is not settled once more."""
        if place.lease is not None:
            return place.result(LEASE_LOST)
        return place.result(None if await self._finder.is_settled(place, ack) else NOT_FOUND)

    async def _holds(self, lease: LeaseId, acked: set[int]) -> bool:
        """Whether a lease is among those of the acknowledgements, or holds anything else."""
        for topic_id, partition, lease_id in lease.places:
            if lease_id in acked:
                return True
            if await self._broker.queue_leases.of_lease(topic_id, partition, lease.group_id, lease_id) is not None:
                return True
        return False

    @property
    def acks(self) -> list[LeasedAcks]:
        """What is settled with the transaction, the dead letters too."""
        found = []
        for one, planned in self.planned:
            runs = [run for step in planned.steps if step.action != NACK for run in step.runs]
            if runs:
                place = one.place
                found.append(LeasedAcks(place.topic.id, one.held.partition, place.group.id, one.held.lease_id, runs))
        return found

    async def committed(self) -> None:
        """What is to be retried is given back; if that fails, its lease expires."""
        parts = [
            _given_back(one, step.runs, step.error)
            for one, planned in self.planned
            for step in planned.steps
            if step.action == NACK
        ]
        for one, planned in self.planned:
            if planned.is_released:
                self._finder.released(one)
        if parts:
            await self._broker.queues.settle(parts)

    @property
    def settled_count(self) -> int:
        return sum(end - start for part in self.acks for start, end in part.runs)

    async def give_back_rest(self) -> None:
        """What the leases hold after the last message that was acknowledged; if that fails, they expire."""
        parts = []
        for one, planned in self.planned:
            ends = [end for step in planned.steps for _, end in step.runs]
            rest = () if planned.is_released else one.batch.since(max(ends, default=one.held.offset))
            if rest:
                parts.append(_given_back(one, [(rest[0], rest[0] + 1)], ""))
        if parts:
            await self._broker.queues.settle(parts)

    def release(self) -> None:
        """What was leased here for acknowledgements without a lease, and is not settled."""
        if self._received:
            self._broker.queues.give_back_later(self._received)


def _given_back(one: HeldAcks, runs: list[tuple[int, int]], error: str) -> SettleRequest:
    place, held = one.place, one.held
    return SettleRequest(
        place.topic.id, held.partition, place.group.id, held.lease_id, NACK, runs, 0, is_counted=False, reason=error
    )


def _final(ack: Ack) -> Ack:
    """In a transaction, failed means a dead letter at once."""
    if ack.mark.outcome is not Outcome.FAILED:
        return ack
    return ack._replace(mark=Mark(Outcome.DLQ, ack.mark.error))


def _of_one_lease(acks: Sequence[Ack]) -> list[Ack]:
    """An acknowledgement without a lease has that of another one of the same partition and group."""
    named = {(ack.partition_id, ack.group): ack.lease for ack in acks if ack.lease is not None}
    return [
        ack if ack.lease is not None else ack._replace(lease=named.get((ack.partition_id, ack.group))) for ack in acks
    ]
