"""Settle: ack, nack, reject and extend messages that consumers have received."""

import asyncio
import logging
from collections.abc import Sequence
from typing import NamedTuple

from quiver.model.dead_letter import dead_letter_topic, is_dead_letter_topic
from quiver.model.errors import Closed, LeaseLost, QuiverError, ShuttingDown, TopicNotFound
from quiver.model.queue import QueueSettings
from quiver.model.settlement import ACK, NACK, Receipt, SettleRequest
from quiver.model.transaction import LeasedAcks
from quiver.queues.effective_settings import EffectiveSettings
from quiver.queues.lease_times import LeaseTimes
from quiver.queues.partition.lease_settler import PreparedAcks
from quiver.queues.partition.partition_queue import PartitionQueue
from quiver.queues.partition_queues import PartitionQueues
from quiver.queues.state.port import Refused, Settlement
from quiver.queues.topic.topic_queues import TopicQueues
from quiver.structures.offset_ranges import merged, ranges_of
from quiver.topics.catalogue import TopicCatalogue

logger = logging.getLogger(__name__)

_PARTS_AT_ONCE = 64
_ANY_SETTINGS = QueueSettings()


class ReceiptOutcome(NamedTuple):
    """What became of one message that was settled by its receipt."""

    error: QuiverError | None
    topic: str
    partition: int
    offset: int
    attempt: int
    until_ms: int | None = None
    dlq_topic: str | None = None
    committed_offset: int | None = None
    """Everything below is settled."""
    offset_advanced: bool = False


class _Lease(NamedTuple):
    topic: str
    partition: int
    group_id: int
    lease_id: int


class SettleHandler:
    def __init__(
        self,
        catalogue: TopicCatalogue,
        queues: PartitionQueues,
        topic_queues: TopicQueues,
        times: LeaseTimes,
        settings: EffectiveSettings,
    ) -> None:
        self._catalogue = catalogue
        self._queues = queues
        self._topic_queues = topic_queues
        self._times = times
        self._settings = settings

    async def settle(self, parts: Sequence[SettleRequest]) -> list[Settlement]:
        """Each part by itself, in the order given; what is not refused is done and on disk."""
        if len(parts) == 1:
            return [await self._settle(parts[0])]
        loop = asyncio.get_running_loop()
        begun: list[asyncio.Task[Settlement]] = []
        for at in range(0, len(parts), _PARTS_AT_ONCE):
            begun += [loop.create_task(self._settle(part)) for part in parts[at : at + _PARTS_AT_ONCE]]
            await asyncio.sleep(0)  # each is decided now, and waits for the disk together with all the others
        return [await task for task in begun]

    async def settle_receipts(
        self,
        action: int,
        receipts: Sequence[Receipt],
        *,
        delay_ms: int | None = None,
        is_counted: bool = True,
        reason: str = "",
    ) -> list[ReceiptOutcome]:
        """An outcome for each receipt, in the order given. If one comes twice, the second has lost its lease."""
        leases: dict[_Lease, dict[int, int]] = {}
        outcomes = [ReceiptOutcome(_lost(receipt.topic, *receipt[1:3]), *receipt[:4]) for receipt in receipts]
        for place, receipt in enumerate(receipts):
            lease = _Lease(receipt.topic, receipt.partition, receipt.group_id, receipt.lease_id)
            leases.setdefault(lease, {}).setdefault(receipt.offset, place)
        parts = [
            SettleRequest(
                self._topic_id(lease.topic),
                *lease[1:],
                action,
                ranges_of(sorted(offsets)),
                delay_ms,
                is_counted,
                reason,
            )
            for lease, offsets in leases.items()
        ]
        before = [self._committed(part) for part in parts]
        settlements = await self.settle(parts)
        for (lease, offsets), part, old, settlement in zip(leases.items(), parts, before, settlements, strict=True):
            committed = self._committed(part)
            errors, dead = _by_offset(settlement, offsets), _dead_offsets(settlement, offsets)
            dlq_topic = None if is_dead_letter_topic(lease.topic) else dead_letter_topic(lease.topic)
            for offset, place in offsets.items():
                is_dead = offset in dead
                outcomes[place] = ReceiptOutcome(
                    errors.get(offset),
                    *receipts[place][:4],
                    None if is_dead else settlement.until_ms,
                    dlq_topic if is_dead else None,
                    committed,
                    committed is not None and old is not None and committed > old,
                )
        return outcomes

    async def _settle(self, part: SettleRequest) -> Settlement:
        """Never raises: an error refuses the part."""
        try:
            part.check()
            queue = self._queues.get(part.topic_id, part.partition)
            if queue is None:
                return Settlement([Refused(*run, self._lost(part, run[0])) for run in part.runs])
            if part.action == ACK:  # the only settlement that no setting changes, and the one that most requests are
                settlement = await queue.settler.settle(part, _ANY_SETTINGS)
                self._topic_queues.may_hold_more(queue, part.group_id)
            else:
                settlement = await queue.settler.settle(part, self._settings.of(part.topic_id, part.group_id))
            await queue.durable()  # for a repeat, this includes what the first request settled
        except Exception as error:
            if not isinstance(error, QuiverError):
                logger.exception("a settlement failed unexpectedly")
            known = error if isinstance(error, QuiverError) else QuiverError()
            if isinstance(known, Closed):  # the consumer tries again when the broker is back
                known = ShuttingDown()
            return Settlement([Refused(*run, known) for run in part.runs])
        await self._settled(queue, part, settlement)
        if settlement.until_ms is None:
            return settlement
        return settlement._replace(until_ms=queue.shown_ms(settlement.until_ms))

    async def _settled(self, queue: PartitionQueue, part: SettleRequest, settlement: Settlement) -> None:
        """The settlement is done and on disk: whatever fails from here on, it is not refused."""
        try:
            if settlement.until_ms is not None:
                self._times.note(queue, settlement.until_ms)
            self._topic_queues.settled(queue, part.group_id, frees=part.action == NACK)
            if settlement.dead:
                await queue.dead_letters_arrived(settlement)
        except Exception:
            logger.exception("a step after a settlement in %s failed", queue.partition.name)

    async def prepare_acks(self, acks: Sequence[LeasedAcks]) -> "TransactionAcks":
        """All of them in memory, for a transaction that is being decided; or none, and the first error is raised.

        Leases are on disk first: if the acks have to be repeated after a restart, the leases are known.
        """
        found: list[tuple[PartitionQueue, SettleRequest]] = []
        for part in acks:
            ack = SettleRequest(part.topic_id, part.partition, part.group_id, part.lease_id, ACK, part.runs)
            ack.check()
            queue = self._queues.get(part.topic_id, part.partition)
            if queue is None:
                raise self._lost(ack, part.runs[0][0] if part.runs else 0)
            found.append((queue, ack))
        await asyncio.gather(*(queue.durable() for queue in {queue for queue, _ in found}))
        prepared = TransactionAcks(self._topic_queues)
        try:
            for queue, ack in found:
                prepared.add(queue, ack, queue.settler.prepare_acks(ack.group_id, ack.lease_id, ack.runs))
        except BaseException:
            prepared.take_back()
            raise
        return prepared

    async def prepare_leases(self, decision: int, acks: Sequence[LeasedAcks]) -> None:
        """For a transaction that another worker decides: on return they are on disk. After an error, `end_prepared`
        takes back those that were prepared."""
        queues: dict[PartitionQueue, None] = {}
        for part in _by_lease(acks):
            SettleRequest(part.topic_id, part.partition, part.group_id, part.lease_id, ACK, part.runs).check()
            queue = self._queues.get(part.topic_id, part.partition)
            if queue is None:
                raise _lost(f"topic id {part.topic_id}", part.partition, part.runs[0][0] if part.runs else 0)
            if part.runs:
                queue.settler.prepared.prepare(decision, part.group_id, part.lease_id, part.runs)
                queues[queue] = None
        await asyncio.gather(*(queue.durable() for queue in queues))

    async def end_prepared(self, decision: int, *, commit: bool) -> None:
        """The outcome of that transaction, wherever something is prepared for it; on return it is on disk."""
        await asyncio.gather(*(self._end_prepared(queue, decision, commit) for queue in self._queues.all()))

    async def _end_prepared(self, queue: PartitionQueue, decision: int, commit: bool) -> None:
        if decision in queue.settler.prepared.decisions:
            topic_id = queue.place.topic_id
            visibility_ms = {group: self._settings.of(topic_id, group).visibility_ms for group in queue.group_ids}
            groups = queue.settler.prepared.finish(decision, commit=commit, visibility_ms=visibility_ms)
            self._times.note(queue, queue.next_time_ms())
            for group_id in groups:
                self._topic_queues.settled(queue, group_id, frees=False)
            await queue.durable()
        elif queue.journal.is_stuck:  # an earlier attempt could not be written
            await queue.durable()

    def prepared_decisions(self) -> set[int]:
        """Those whose outcome is not known here."""
        return {decision for queue in self._queues.all() for decision in queue.settler.prepared.decisions}

    def _topic_id(self, name: str) -> int:
        try:
            return self._catalogue.topic(name).id
        except QuiverError:
            return 0

    def _committed(self, part: SettleRequest) -> int | None:
        queue = self._queues.get(part.topic_id, part.partition)
        return None if queue is None else queue.settled_offset(part.group_id)

    def _lost(self, part: SettleRequest, offset: int) -> LeaseLost:
        try:
            topic = self._catalogue.topic_by_id(part.topic_id).name
        except TopicNotFound:
            topic = f"topic id {part.topic_id}"
        return _lost(topic, part.partition, offset)


class TransactionAcks:
    """The acks of a transaction, done in memory."""

    def __init__(self, topic_queues: TopicQueues) -> None:
        self._topic_queues = topic_queues
        self._prepared: list[tuple[PartitionQueue, SettleRequest, PreparedAcks]] = []

    def add(self, queue: PartitionQueue, part: SettleRequest, prepared: PreparedAcks) -> None:
        self._prepared.append((queue, part, prepared))

    async def finish(self) -> None:
        """On return they are on disk; after an error it is called again."""
        await asyncio.gather(*(queue.settler.finish_acks(prepared) for queue, _, prepared in self._prepared))
        done, self._prepared = self._prepared, []
        for queue, part, _ in done:
            self._topic_queues.settled(queue, part.group_id, frees=False)

    def take_back(self) -> None:
        for queue, _, prepared in reversed(self._prepared):
            queue.settler.take_back_acks(prepared)
        self._prepared = []


def _by_lease(acks: Sequence[LeasedAcks]) -> list[LeasedAcks]:
    """One part per lease: in order by key, an ack counts only together with those before it."""
    runs: dict[tuple[int, int, int, int], list[tuple[int, int]]] = {}
    for part in acks:
        place = (part.topic_id, part.partition, part.group_id, part.lease_id)
        runs.setdefault(place, []).extend(part.runs)
    return [LeasedAcks(*place, merged(found)) for place, found in runs.items()]


def _lost(topic: str, partition: int, offset: int) -> LeaseLost:
    return LeaseLost(message=f"{topic}-{partition} offset {offset}")


def _by_offset(settlement: Settlement, offsets: dict[int, int]) -> dict[int, QuiverError]:
    return {
        offset: refused.error
        for refused in settlement.refused
        for offset in range(refused.start, refused.end)
        if offset in offsets
    }


def _dead_offsets(settlement: Settlement, offsets: dict[int, int]) -> set[int]:
    return {offset for dead in settlement.dead for offset in range(dead.start, dead.end) if offset in offsets}
