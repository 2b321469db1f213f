"""Acknowledges messages by partition and transactionId: finds their leases, and settles what the rules say."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from quiver.gateways.queen.acks.leased_messages import LeasedBatch, LeasedMessages
from quiver.gateways.queen.acks.rules import Mark, Outcome, Plan, plan
from quiver.gateways.queen.acks.settled_messages import SettledMessages
from quiver.gateways.queen.identifiers import LeaseId, PartitionKey, parse_lease_id, parse_partition_id
from quiver.gateways.queen.messages import transaction_id
from quiver.gateways.queen.queues import partition_name
from quiver.model.errors import QuiverError
from quiver.model.limits import MESSAGES_AT_ONCE, PAGE_BYTES
from quiver.model.queue import ReceiveRequest
from quiver.model.settlement import NACK, SettleRequest
from quiver.model.topic import Topic
from quiver.queues.leases import HeldKey
from quiver.records.read import open_frame
from quiver.system.pace import bounded_gather

if TYPE_CHECKING:
    from quiver.groups.events import Group
    from quiver.routing.facade import Facade

NOT_FOUND = "Message not found"
LEASE_LOST = "Invalid or expired lease"
_CONSUMER = "queen-acks"


class Ack(NamedTuple):
    transaction: str
    partition_id: str
    group: str
    lease: str | None
    """Without one, whoever holds the message."""
    mark: Mark


class AckResult(NamedTuple):
    error: str | None
    queue: str | None = None
    partition: str | None = None
    is_released: bool = False
    is_dead: bool = False


class _Place(NamedTuple):
    """What the acknowledgements of one lease and partition have in common."""

    topic: Topic
    key: bytes | None
    group: "Group"
    lease: LeaseId | None

    def result(self, error: str | None, *, is_released: bool = False, is_dead: bool = False) -> AckResult:
        return AckResult(error, self.topic.name, partition_name(self.key), is_released, is_dead)


class Acknowledger:
    def __init__(self, broker: "Facade", leased: LeasedMessages) -> None:
        self._broker = broker
        self._leased = leased
        self._settled = SettledMessages(broker, leased)

    async def acknowledge(self, acks: Sequence[Ack]) -> list[AckResult]:
        """A result for each, in their order. Those of one lease and partition are taken together."""
        together: dict[tuple[str, str, str | None], list[int]] = {}
        for index, ack in enumerate(acks):
            together.setdefault((ack.partition_id, ack.group, ack.lease), []).append(index)
        results: dict[int, AckResult] = {}

        async def settle(indexes: list[int]) -> None:
            found = await self._acknowledge([acks[index] for index in indexes])
            results.update(zip(indexes, found, strict=True))

        await bounded_gather(settle, together.values())
        return [results[index] for index in range(len(acks))]

    async def _acknowledge(self, acks: Sequence[Ack]) -> list[AckResult]:
        first = acks[0]
        place = self._place(first)
        if isinstance(place, str):
            return [AckResult(place)] * len(acks)
        found: dict[int, AckResult] = {}
        for held in await self._held(place):
            batch = await self._batch(place, held)
            found |= await self._settle(place, held, batch, acks)
        rest = [index for index in range(len(acks)) if index not in found]
        if rest and place.lease is None and place.key is not None and not found:
            found |= await self._take(place, acks)
            rest = [index for index in rest if index not in found]
        for index in rest:
            is_settled = acks[index].mark.outcome is Outcome.COMPLETED and await self._settled.has(
                place.topic, place.key, place.group.id, place.lease, acks[index].transaction
            )
            unknown = NOT_FOUND if place.lease is None or found else LEASE_LOST
            found[index] = place.result(None if is_settled else unknown)
        return [found[index] for index in range(len(acks))]

    def _place(self, ack: Ack) -> _Place | str:
        """Or why there is none."""
        named = parse_partition_id(ack.partition_id)
        topic = None if named is None else self._topic(named)
        if named is None or topic is None:
            return NOT_FOUND
        lease = parse_lease_id(ack.lease) if ack.lease else None
        group = self._broker.groups.groups().get(ack.group)
        if ack.lease and (lease is None or group is None or lease.group_id != group.id):
            return LEASE_LOST
        return NOT_FOUND if group is None else _Place(topic, named.key, group, lease)

    def _topic(self, named: PartitionKey) -> Topic | None:
        name = self._broker.streams.topic_name(named.topic_id)
        return None if name is None else self._broker.topic(name)

    async def _held(self, place: _Place) -> list[HeldKey]:
        """What is held of the key, by the lease that is named or by anybody."""
        leases = None if place.lease is None else {each[1:] for each in place.lease.places}
        if place.key is None:
            known = [self._leased.get(*each, None) for each in leases or ()]
            return [HeldKey(one.partition, one.lease_id, one.offsets[0], 1, []) for one in known if one is not None]
        held = await self._broker.queue_leases.of_key(place.topic.id, place.group.id, place.key)
        return [one for one in held if leases is None or (one.partition, one.lease_id) in leases]

    async def _batch(self, place: _Place, held: HeldKey) -> LeasedBatch:
        known = self._leased.get(held.partition, held.lease_id, place.key)
        if known is not None or place.key is None:
            return known or LeasedBatch(held.partition, held.lease_id, None)
        return await self._leased.of(place.topic, place.group.id, place.key, held)

    async def _settle(
        self, place: _Place, held: HeldKey, batch: LeasedBatch, acks: Sequence[Ack]
    ) -> dict[int, AckResult]:
        """The results of those that the lease holds, by their index."""
        offsets = {
            index: offset
            for index, ack in enumerate(acks)
            if (offset := batch.offset_of(ack.transaction)) is not None and offset >= held.offset
        }
        if not offsets:
            return {}
        marks = {offset: acks[index].mark for index, offset in offsets.items()}
        settings = self._broker.queues.settings_of(place.topic.id, place.group.name)
        planned = plan(batch.since(held.offset), marks, is_last_attempt=held.attempt >= settings.max_attempts)
        refused = await self._carry_out(place, held, planned)
        return {
            index: place.result(
                LEASE_LOST if offset in refused else None,
                is_released=planned.is_released,
                is_dead=offset in planned.dead,
            )
            for index, offset in offsets.items()
        }

    async def _carry_out(self, place: _Place, held: HeldKey, planned: Plan) -> set[int]:
        """Returns the offsets that are held no more, and were not settled by somebody else either."""
        parts = [
            SettleRequest(
                place.topic.id,
                held.partition,
                place.group.id,
                held.lease_id,
                step.action,
                step.runs,
                0 if step.action == NACK else None,
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

    async def _take(self, place: _Place, acks: Sequence[Ack]) -> dict[int, AckResult]:
        """Nobody holds the messages: they are leased here, as many as a pop could get, and what is not settled is
        given back."""
        assert place.key is not None, "messages without a key are found by their lease"
        received = await self._broker.queues.receive(
            ReceiveRequest(
                topic_ids=[place.topic.id],
                group=place.group.name,
                consumer=_CONSUMER,
                max_messages=MESSAGES_AT_ONCE,
                max_bytes=PAGE_BYTES,
                ordering="key",
                key=place.key,
            )
        )
        found: dict[int, AckResult] = {}
        batches: dict[tuple[int, int], LeasedBatch] = {}
        try:
            for one in received:
                run, frame = one.run, open_frame(one.run.frame)
                batch = batches.setdefault(
                    (run.partition, run.lease_id), LeasedBatch(run.partition, run.lease_id, place.key)
                )
                for offset, headers in zip(frame.offsets(), frame.headers(), strict=True):
                    batch.add(transaction_id(headers, place.topic.id, run.partition, offset), offset)
            for batch in batches.values():
                held = HeldKey(batch.partition, batch.lease_id, batch.offsets[0], received[0].run.attempt, [])
                found |= await self._settle(place, held, batch, acks)
        except QuiverError:
            self._broker.queues.give_back_later(received)
            raise
        await self._broker.queues.give_back(received)
        return found
