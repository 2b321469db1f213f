"""Applies a decision: markers in its partitions, offsets of groups, acks of leases.

Everything is tried immediately. What fails is tried again until it is done, also after a restart, and blocks nothing.
"""

import asyncio
import logging
from collections.abc import Awaitable, Iterator, Sequence

import msgspec

from quiver.delays.service import Delays
from quiver.model.errors import (
    Closed,
    GroupNotFound,
    LeaseLost,
    PartitionNotFound,
    QuiverError,
    SettleInOrder,
    TopicNotFound,
)
from quiver.model.names import TopicPartition
from quiver.model.settlement import ACK, SettleRequest
from quiver.model.transaction import GroupOffsetCommit
from quiver.partition.partition import Appended, Partition
from quiver.queues.service import Queues
from quiver.queues.settle import TransactionAcks
from quiver.streams.service import Streams
from quiver.system.backoff import Backoff
from quiver.system.pace import Pace
from quiver.topics.catalogue import TopicCatalogue
from quiver.topics.partitions import Partitions
from quiver.transactions.coordinator import Coordinator
from quiver.transactions.events import Decided, Participant, ProducerOutcome

logger = logging.getLogger(__name__)

_FIRST_PAUSE_SECONDS, _LONGEST_PAUSE_SECONDS = 0.1, 5.0


_Marker = tuple[ProducerOutcome, Participant]


class _Work:
    """What is left to do for a decision."""

    def __init__(self, decided: Decided, acks: TransactionAcks | None) -> None:
        self.decided = decided
        self.acks = acks
        self.has_acks = bool(decided.acks)
        self.offsets = list(decided.offsets)
        self.markers: list[_Marker] = [
            (outcome, participant) for outcome in decided.outcomes for participant in outcome.participants
        ]
        self.marked: dict[Partition, None] = {}
        """Partitions whose marker is written but may not be on disk yet."""

    @property
    def is_done(self) -> bool:
        return not (self.markers or self.offsets or self.has_acks)

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
    def __init__(
        self,
        coordinator: Coordinator,
        catalogue: TopicCatalogue,
        partitions: Partitions,
        delays: Delays,
        streams: Streams,
        queues: Queues,
    ) -> None:
        self._coordinator = coordinator
        self._catalogue = catalogue
        self._partitions = partitions
        self._delays = delays
        self._streams = streams
        self._queues = queues
        self._done: list[_Work] = []
        self._retries: set[asyncio.Task[None]] = set()

    async def apply(self, decided: Decided, acks: TransactionAcks | None = None) -> None:
        """Returns when everything was tried once. At start-up, without `acks`, they are taken from the decision."""
        work = _Work(decided, acks)
        await self._attempt(work)
        if work.is_done:
            self._done.append(work)
            return
        task = asyncio.get_running_loop().create_task(self._retry(work))
        self._retries.add(task)
        task.add_done_callback(self._retries.discard)

    def open_in_logs(self) -> Iterator[tuple[tuple[int, int], Participant]]:
        """Every transaction that is open in a log: producer id, epoch and partition."""
        logs = [(Participant(topic_id, number), found) for topic_id, number, found in self._partitions.places()]
        logs += [(Participant(*key, is_schedule=True), found) for key, found in self._delays.schedule_logs()]
        for participant, partition in logs:
            for producer_id, transaction in partition.tables.transactions.open.items():
                yield (producer_id, transaction.epoch), participant

    async def flush(self) -> None:
        """Syncs what is written; decisions that are done are then completely applied."""
        works, self._done = self._done, []
        marked = dict.fromkeys(partition for work in works for partition in work.marked)
        on_disk = set(await _all([_synced(partition) for partition in marked]))
        for work in works:
            if work.marked.keys() <= on_disk:
                self._coordinator.completed(work.decided.id)
            # What could not be synced stays open in the journal, and the next start applies it again.

    async def stop(self) -> None:
        tasks = list(self._retries)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self.flush()

    async def _attempt(self, work: _Work) -> None:
        """Does what can be done."""
        if not (work.offsets or work.has_acks):  # then tasks would only cost time
            await self._put_markers(work)
            return
        await _all(
            [
                self._put_markers(work),
                *(self._put_offsets(work, group) for group in work.offsets),
                self._put_acks(work),
            ]
        )

    async def _put_markers(self, work: _Work) -> None:
        """Begins all of them, each written at once where its partition is idle, and waits for the others."""
        begun: list[tuple[_Marker, Partition, asyncio.Future[Appended]]] = []
        left: list[_Marker] = []
        pace = Pace()
        for marker in work.markers:
            outcome, participant = marker
            try:
                partition = await self._partition_of(participant)
                if partition is not None:
                    written = partition.append_marker(outcome.producer_id, outcome.epoch, commit=work.decided.commit)
                    begun.append((marker, partition, written))
            except Exception as error:
                left.append(_left(marker, work, error))
            await pace.turn()
        for marker, partition, written in begun:
            try:
                await written
            except Exception as error:
                left.append(_left(marker, work, error))
            else:
                work.marked[partition] = None
        work.markers = left

    async def _partition_of(self, participant: Participant) -> Partition | None:
        """None when it is gone."""
        try:
            if participant.is_schedule:
                topic = self._catalogue.topic_by_id(participant.topic_id)
                return await self._delays.schedule_log(topic, participant.partition)
            return self._partitions.get(participant.topic_id, participant.partition)
        except (TopicNotFound, PartitionNotFound):
            return None

    async def _put_offsets(self, work: _Work, group: GroupOffsetCommit) -> None:
        offsets = {TopicPartition(p.topic_id, p.partition): (p.offset, p.metadata) for p in group.offsets}
        try:
            await self._streams.offsets.commit_decided(group.group, offsets, work.decided.id)
        except GroupNotFound:
            work.offsets.remove(group)
        except Exception as error:
            logger.warning("offsets of transaction %d wait: %s", work.decided.id, error, exc_info=_is_strange(error))
        else:
            work.offsets.remove(group)

    async def _put_acks(self, work: _Work) -> None:
        if not work.has_acks:
            return
        try:
            if work.acks is not None:
                await work.acks.finish()
            else:
                await self._repeat_acks(work.decided)
        except Exception as error:
            logger.warning("acks of transaction %d wait: %s", work.decided.id, error, exc_info=_is_strange(error))
        else:
            work.has_acks = False

    async def _repeat_acks(self, decided: Decided) -> None:
        """Acks that took effect before the restart are refused now, because their lease has ended: that is
        expected."""
        for part in decided.acks:
            self._queues.check_open(part.topic_id, part.partition)
        settlements = await self._queues.settle(
            [
                SettleRequest(part.topic_id, part.partition, part.group_id, part.lease_id, ACK, part.runs)
                for part in decided.acks
            ]
        )
        for refused in (refused for settlement in settlements for refused in settlement.refused):
            if not isinstance(refused.error, LeaseLost | SettleInOrder):
                raise refused.error

    async def _retry(self, work: _Work) -> None:
        backoff, is_noted = Backoff(_FIRST_PAUSE_SECONDS, _LONGEST_PAUSE_SECONDS), False
        while not work.is_done:
            if not (is_noted or work.offsets or work.has_acks):
                try:
                    await self._coordinator.note_markers_left(work.decided, work.outcomes_left())
                    is_noted = True
                except (QuiverError, OSError) as error:
                    logger.warning("what is left of transaction %d could not be recorded: %s", work.decided.id, error)
            await asyncio.sleep(backoff.next_seconds())
            await self._attempt(work)
        self._done.append(work)


def _left(marker: _Marker, work: _Work, error: Exception) -> _Marker:
    logger.warning("the marker of transaction %d is not in %s yet: %s", work.decided.id, marker[1], error)
    return marker


def _is_strange(error: Exception) -> bool:
    """Whether the error is unexpected; then the log has its traceback."""
    return not isinstance(error, QuiverError | OSError)


async def _synced(partition: Partition) -> Partition | None:
    try:
        await partition.log.sync()
    except Closed:
        return partition  # its topic is gone
    except (QuiverError, OSError) as error:
        logger.warning("%s could not be synced: %s", partition.name, error)
        return None
    return partition


async def _all(work: Sequence[Awaitable["Partition | None"]] | Sequence[Awaitable[None]]) -> list[Partition]:
    return [found for found in await asyncio.gather(*work) if found is not None]
