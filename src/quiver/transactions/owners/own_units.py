"""What a decision does to the partitions, groups and leases of this worker: markers, offsets, acks."""

import asyncio
import logging
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

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
from quiver.model.transaction import GroupOffsetCommit, LeasedAcks
from quiver.partition.partition import Appended, Partition
from quiver.queues.service import Queues
from quiver.streams.service import Streams
from quiver.system.pace import Pace
from quiver.topics.catalogue import TopicCatalogue
from quiver.topics.partitions import Partitions
from quiver.transactions.events import Participant, ProducerOutcome
from quiver.transactions.owners.port import OpenInLog

logger = logging.getLogger(__name__)

Marker = tuple[ProducerOutcome, Participant]


class Marked(NamedTuple):
    """What became of markers."""

    left: list[Marker]
    """Not written yet."""
    partitions: list[Partition]
    """Theirs are written, but may not be on disk."""


class OwnUnits:
    def __init__(
        self, catalogue: TopicCatalogue, partitions: Partitions, delays: Delays, streams: Streams, queues: Queues
    ) -> None:
        self._catalogue = catalogue
        self._partitions = partitions
        self._delays = delays
        self.streams = streams
        self.queues = queues

    def open_in_logs(self) -> Iterator[OpenInLog]:
        """Every transaction that is open in a log."""
        logs = [(Participant(topic_id, number), found) for topic_id, number, found in self._partitions.places()]
        logs += [(Participant(*key, is_schedule=True), found) for key, found in self._delays.schedule_logs()]
        for participant, partition in logs:
            for producer_id, transaction in partition.tables.transactions.open.items():
                yield OpenInLog(producer_id, transaction.epoch, participant)

    async def put_markers(self, decision: int, markers: Iterable[Marker], *, commit: bool) -> Marked:
        """Begins all of them, each written at once where its partition is idle, and waits for the others."""
        begun: list[tuple[Marker, Partition, asyncio.Future[Appended]]] = []
        marked = Marked([], [])
        pace = Pace()
        for marker in markers:
            outcome, participant = marker
            try:
                partition = await self._partition_of(participant)
                if partition is not None:
                    written = partition.append_marker(outcome.producer_id, outcome.epoch, commit=commit)
                    begun.append((marker, partition, written))
            except Exception as error:
                marked.left.append(_left(marker, decision, error))
            await pace.turn()
        for marker, partition, written in begun:
            try:
                await written
            except Exception as error:
                marked.left.append(_left(marker, decision, error))
            else:
                marked.partitions.append(partition)
        return marked

    async def _partition_of(self, participant: Participant) -> Partition | None:
        """None when it is gone."""
        try:
            if participant.is_schedule:
                topic = self._catalogue.topic_by_id(participant.topic_id)
                return await self._delays.schedule_log(topic, participant.partition)
            return self._partitions.get(participant.topic_id, participant.partition)
        except (TopicNotFound, PartitionNotFound):
            return None

    async def put_offsets(self, decision: int, group: GroupOffsetCommit) -> bool:
        """Commits them once, however often it is called; False: they could not be written yet."""
        offsets = {TopicPartition(p.topic_id, p.partition): (p.offset, p.metadata) for p in group.offsets}
        try:
            await self.streams.offsets.commit_decided(group.group, offsets, decision)
        except GroupNotFound:
            return True
        except Exception as error:
            logger.warning("offsets of transaction %d wait: %s", decision, error, exc_info=is_strange(error))
            return False
        return True

    async def repeat_acks(self, acks: Sequence[LeasedAcks]) -> None:
        """Acks that took effect before the restart are refused now, because their lease has ended: that is
        expected."""
        for part in acks:
            self.queues.check_open(part.topic_id, part.partition)
        settlements = await self.queues.settle(
            [
                SettleRequest(part.topic_id, part.partition, part.group_id, part.lease_id, ACK, part.runs)
                for part in acks
            ]
        )
        for refused in (refused for settlement in settlements for refused in settlement.refused):
            if not isinstance(refused.error, LeaseLost | SettleInOrder):
                raise refused.error

    def prepared(self) -> set[int]:
        """Decisions that something is prepared for."""
        return self.queues.prepared_decisions() | self.streams.prepared.decisions

    async def end_prepared(self, decision: int, *, commit: bool) -> None:
        """What was prepared for a decision takes effect, or is let go; on return that is on disk."""
        await self.queues.end_prepared(decision, commit=commit)
        await self.streams.prepared.finish(decision, commit=commit)

    async def sync(self, participants: Iterable[Participant]) -> bool:
        """Whether these logs are on disk as far as they are written."""
        partitions = [await self._partition_of(participant) for participant in participants]
        found = dict.fromkeys(partition for partition in partitions if partition is not None)
        return None not in await asyncio.gather(*(synced(partition) for partition in found))


async def synced(partition: Partition) -> Partition | None:
    """The partition, if it is on disk as far as it is written."""
    try:
        await partition.log.sync()
    except Closed:
        return partition  # its topic is gone
    except (QuiverError, OSError) as error:
        logger.warning("%s could not be synced: %s", partition.name, error)
        return None
    return partition


def _left(marker: Marker, decision: int, error: Exception) -> Marker:
    logger.warning("the marker of transaction %d is not in %s yet: %s", decision, marker[1], error)
    return marker


def is_strange(error: Exception) -> bool:
    """Whether the error is unexpected; then the log has its traceback."""
    return not isinstance(error, QuiverError | OSError)
