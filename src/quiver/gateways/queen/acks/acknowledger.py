"""Acknowledges messages: finds their leases, and settles what the rules say."""

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
from quiver.gateways.queen.acks.rules import Outcome, Plan, Step
from quiver.gateways.queen.options import retry_delay_ms
from quiver.model.errors import QuiverError
from quiver.model.settlement import NACK, SettleRequest
from quiver.model.topic import Topic
from quiver.system.pace import bounded_gather

if TYPE_CHECKING:
    from quiver.routing.facade import Facade


class Acknowledger:
    def __init__(self, broker: "Facade", finder: AckFinder) -> None:
        self._broker = broker
        self._finder = finder

    async def acknowledge(self, acks: Sequence[Ack]) -> list[AckResult]:
        """A result for each, in their order."""
        results: dict[int, AckResult] = {}

        async def settle(indexes: list[int]) -> None:
            found = await self._acknowledge([acks[index] for index in indexes])
            results.update(zip(indexes, found, strict=True))

        await bounded_gather(settle, by_lease(acks))
        return [results[index] for index in range(len(acks))]

    async def complete(self, first: Ack, transactions: Sequence[str]) -> AckResult | None:
        """Completes messages of one lease and partition, all like the first. None if that is not all that there is to
        it, and nothing was done."""
        place = self._finder.place(first)
        if isinstance(place, str) or place.lease is None or first.mark.outcome is not Outcome.COMPLETED:
            return None
        last = await self._finder.find_last(place, transactions)
        if last is None:
            return None
        [result] = (await self._settle(last, [first])).values()
        return None if result.error is not None else result

    async def _acknowledge(self, acks: Sequence[Ack]) -> list[AckResult]:
        place = self._finder.place(acks[0])
        if isinstance(place, str):
            return [AckResult(place)] * len(acks)
        found: dict[int, AckResult] = {}
        for one in await self._finder.find(place, acks):
            found |= await self._settle(one, acks)
        if not found and place.lease is None and place.key is not None:
            found |= await self._take(place, acks)
        unknown = NOT_FOUND if place.lease is None or found else LEASE_LOST
        for index, ack in enumerate(acks):
            if index not in found:
                is_settled = await self._finder.is_settled(place, ack)
                found[index] = place.result(None if is_settled else unknown)
        return [found[index] for index in range(len(acks))]

    async def _settle(self, one: HeldAcks, acks: Sequence[Ack]) -> dict[int, AckResult]:
        """The results of those that the lease holds, by their index."""
        settings = self._broker.queues.settings_of(one.place.topic.id, one.place.group.name)
        planned = one.plan(acks, is_last_attempt=one.held.attempt >= settings.max_attempts)
        refused = await self._carry_out(one, planned)
        if planned.is_released:
            self._finder.released(one)
        return {
            index: one.place.result(
                LEASE_LOST if offset in refused else None,
                is_released=planned.is_released,
                is_dead=offset in planned.dead,
            )
            for index, offset in one.offsets.items()
        }

    async def _carry_out(self, one: HeldAcks, planned: Plan) -> set[int]:
        """Returns the offsets that are held no more, and were not settled by somebody else either."""
        parts = [
            SettleRequest(
                one.place.topic.id,
                one.held.partition,
                one.place.group.id,
                one.held.lease_id,
                step.action,
                step.runs,
                _delay_ms(step, one.place.topic),
                step.is_counted,
                step.error,
                is_repeat=True,
            )
            for step in planned.steps
        ]
        lost: set[int] = set()
        for settlement in await self._broker.queues.settle(parts):
            for refused in settlement.refused:
                if not refused.is_settled:
                    lost.update(range(refused.start, refused.end))
        return lost

    async def _take(self, place: AckPlace, acks: Sequence[Ack]) -> dict[int, AckResult]:
        """Nobody holds the messages: they are leased here, and what is not settled is given back."""
        received = await self._finder.take(place)
        found: dict[int, AckResult] = {}
        try:
            for one in self._finder.taken(place, acks, received):
                found |= await self._settle(one, acks)
        except QuiverError:
            self._broker.queues.give_back_later(received)
            raise
        await self._broker.queues.give_back(received)
        return found


def _delay_ms(step: Step, topic: Topic) -> int | None:
    if step.action != NACK:
        return None
    return retry_delay_ms(topic) if step.is_counted else 0
