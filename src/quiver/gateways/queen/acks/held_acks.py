"""Finds the leases and offsets of acknowledgements, which name messages by partition and transactionId."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from quiver.gateways.queen.acks.leased_messages import LeasedBatch, LeasedMessages
from quiver.gateways.queen.acks.rules import Mark, Outcome, Plan, plan
from quiver.gateways.queen.acks.settled_messages import SettledMessages
from quiver.gateways.queen.identifiers import LeaseId, PartitionKey, parse_lease_id, parse_partition_id
from quiver.gateways.queen.messages import transaction_id
from quiver.gateways.queen.queues import partition_name
from quiver.model.limits import MESSAGES_AT_ONCE, PAGE_BYTES
from quiver.model.queue import ReceiveRequest
from quiver.model.topic import Topic
from quiver.queues.leases import HeldKey
from quiver.records.read import open_frame

if TYPE_CHECKING:
    from quiver.groups.events import Group
    from quiver.queues.service import Received
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


class AckPlace(NamedTuple):
    """What the acknowledgements of one lease and partition have in common."""

    topic: Topic
    key: bytes | None
    group: "Group"
    lease: LeaseId | None

    def result(self, error: str | None, *, is_released: bool = False, is_dead: bool = False) -> AckResult:
        return AckResult(error, self.topic.name, partition_name(self.key), is_released, is_dead)


class HeldAcks(NamedTuple):
    """Those that one lease holds."""

    place: AckPlace
    held: HeldKey
    batch: LeasedBatch
    offsets: dict[int, int]
    """By the index of the acknowledgement."""

    def plan(self, acks: Sequence[Ack], *, is_last_attempt: bool) -> Plan:
        marks = {offset: acks[index].mark for index, offset in self.offsets.items()}
        return plan(self.batch.since(self.held.offset), marks, is_last_attempt=is_last_attempt)


class AckFinder:
    def __init__(self, broker: "Facade", leased: LeasedMessages) -> None:
        self._broker = broker
        self._leased = leased
        self._settled = SettledMessages(broker, leased)

    def place(self, ack: Ack) -> AckPlace | str:
        """Or why there is none."""
        named = parse_partition_id(ack.partition_id)
        topic = None if named is None else self._topic(named)
        if named is None or topic is None:
            return NOT_FOUND
        lease = parse_lease_id(ack.lease) if ack.lease else None
        group = self._broker.groups.groups().get(ack.group)
        if ack.lease and (lease is None or group is None or lease.group_id != group.id):
            return LEASE_LOST
        return NOT_FOUND if group is None else AckPlace(topic, named.key, group, lease)

    def _topic(self, named: PartitionKey) -> Topic | None:
        name = self._broker.streams.topic_name(named.topic_id)
        return None if name is None else self._broker.topic(name)

    async def find(self, place: AckPlace, acks: Sequence[Ack]) -> list[HeldAcks]:
        """Those that are held, by the lease that is named or by anybody."""
        found = []
        for held in await self._held(place):
            batch = await self._batch(place, held)
            if offsets := _offsets(batch, held.offset, acks):
                found.append(HeldAcks(place, held, batch, offsets))
        return found

    async def find_last(self, place: AckPlace, transactions: Sequence[str]) -> HeldAcks | None:
        """The last of some messages that a lease has, as the only acknowledgement; None if it does not have all."""
        held = await self._held(place)
        batch = await self._batch(place, held[0]) if len(held) == 1 else None
        last = None if batch is None else batch.last_of(transactions)
        if batch is None or last is None or last[1] < held[0].offset:
            return None
        return HeldAcks(place, held[0], batch, {0: last[1]})

    async def _held(self, place: AckPlace) -> list[HeldKey]:
        leases = None if place.lease is None else {each[1:] for each in place.lease.places}
        if place.key is None:
            known = [self._leased.get(*each, None) for each in leases or ()]
            return [HeldKey(one.partition, one.lease_id, one.offsets[0], 1, []) for one in known if one is not None]
        held = await self._broker.queue_leases.of_key(place.topic.id, place.group.id, place.key)
        return [one for one in held if leases is None or (one.partition, one.lease_id) in leases]

    async def _batch(self, place: AckPlace, held: HeldKey) -> LeasedBatch:
        known = self._leased.get(held.partition, held.lease_id, place.key)
        if known is not None or place.key is None:
            return known or LeasedBatch(held.partition, held.lease_id, None)
        return await self._leased.of(place.topic, place.group.id, place.key, held)

    async def take(self, place: AckPlace) -> "list[Received]":
        """Leases what nobody holds of a partition, as much as a pop could get. The caller gives back the rest."""
        return await self._broker.queues.receive(
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

    def taken(self, place: AckPlace, acks: Sequence[Ack], received: "Sequence[Received]") -> list[HeldAcks]:
        batches: dict[tuple[int, int], LeasedBatch] = {}
        for one in received:
            run, frame = one.run, open_frame(one.run.frame)
            batch = batches.setdefault(
                (run.partition, run.lease_id), LeasedBatch(run.partition, run.lease_id, place.key)
            )
            for offset, headers in zip(frame.offsets(), frame.headers(), strict=True):
                batch.add(transaction_id(headers, place.topic.id, run.partition, offset), offset)
        found = []
        for batch in batches.values():
            held = HeldKey(batch.partition, batch.lease_id, batch.offsets[0], received[0].run.attempt, [])
            if offsets := _offsets(batch, held.offset, acks):
                found.append(HeldAcks(place, held, batch, offsets))
        return found

    def released(self, one: HeldAcks) -> None:
        """Its lease holds nothing more of the partition."""
        self._leased.released(one.batch)

    async def is_settled(self, place: AckPlace, ack: Ack) -> bool:
        """Whether a message that nobody holds was completed before, and is completed again."""
        return ack.mark.outcome is Outcome.COMPLETED and await self._settled.has(
            place.topic, place.key, place.group.id, place.lease, ack.transaction
        )


def _offsets(batch: LeasedBatch, first: int, acks: Sequence[Ack]) -> dict[int, int]:
    return {
        index: offset
        for index, ack in enumerate(acks)
        if (offset := batch.offset_of(ack.transaction)) is not None and offset >= first
    }


def by_lease(acks: Sequence[Ack]) -> list[list[int]]:
    """The indexes of acknowledgements of one lease and partition, which are taken together."""
    together: dict[tuple[str, str, str | None], list[int]] = {}
    for index, ack in enumerate(acks):
        together.setdefault((ack.partition_id, ack.group, ack.lease), []).append(index)
    return list(together.values())
