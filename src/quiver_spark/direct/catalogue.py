"""What a data directory says about its topics, without the broker it belongs to."""

from collections.abc import Mapping
from pathlib import Path

import msgspec

from quiver.model.errors import InvalidRequest, TopicNotFound
from quiver.model.position import Position
from quiver.partition.transactions import TransactionTable
from quiver.topics.catalogue import LOG_ID as METADATA_LOG
from quiver.topics.events import Event
from quiver.topics.state import CatalogueState as MetadataState
from quiver_spark.direct.frames import LOGS
from quiver_spark.direct.journal import replay_journal
from quiver_spark.direct.log import DirectLog
from quiver_spark.source.catalogue import TopicExtent
from quiver_spark.source.options import ReadOptions
from quiver_spark.source.slices import Slice

BESIDE_PARTITIONS = ("delivery", "schedule", "timers")
"""The logs that a partition has beside its messages."""
_EVENT = msgspec.json.Decoder(Event)


class DirectCatalogue:
    def __init__(self, options: ReadOptions) -> None:
        assert options.path is not None
        self._root = Path(options.path)
        if not (self._root / LOGS).is_dir():
            raise InvalidRequest(problem=f"option 'path': there is no data directory of a broker in {self._root}")
        self._internal = options.internal
        if self._internal is not None and "/" not in self._internal and self._internal not in BESIDE_PARTITIONS:
            problem = f"{self._internal!r} is neither a log such as {METADATA_LOG} nor one of {BESIDE_PARTITIONS}"
            raise InvalidRequest(problem=f"option 'internal': {problem}")
        self._committed = options.committed and self._internal is None
        self._logs: dict[tuple[str, int], DirectLog] = {}
        self._transactions: dict[tuple[str, int], TransactionTable] = {}

    def names(self) -> list[str]:
        return sorted(topic.name for topic in self._metadata().topics.values())

    def extent(self, name: str) -> TopicExtent:
        if self._internal is not None and "/" in self._internal:
            names, topic_id = [self._internal], 0
            if not (self._root / LOGS / self._internal).is_dir():
                raise InvalidRequest(problem=f"option 'internal': there is no log {self._internal} in {self._root}")
        else:
            topic = self._metadata().by_name(name)
            if topic is None:
                known = ", ".join(self.names()[:10]) or "none"
                raise TopicNotFound(f"there is no topic {name!r} in {self._root}; there are {known}", topic=name)
            topic_id = topic.id
            names = [self._log_name(topic_id, number) for number in range(topic.config.partitions)]
        logs = [self._look(name, number, log_name) for number, log_name in enumerate(names)]
        latest = [self._latest(name, number, log) for number, log in enumerate(logs)]
        earliest = [min(log.start_offset, behind) for log, behind in zip(logs, latest, strict=True)]
        return TopicExtent(name, topic_id, earliest, latest, sum(log.size_bytes for log in logs))

    def _log_name(self, topic_id: int, partition: int) -> str:
        beside = f"-{self._internal}" if self._internal else ""
        return f"topics/{topic_id}/{partition}{beside}"

    def _look(self, topic: str, partition: int, log_name: str) -> DirectLog:
        log = self._logs.get((topic, partition))
        if log is None or log.directory != self._root / LOGS / log_name:
            log = self._logs[topic, partition] = DirectLog(self._root / LOGS / log_name, f"{topic}-{partition}")
        log.look()
        return log

    def _latest(self, topic: str, partition: int, log: DirectLog) -> int:
        """Behind the last message that may be read; with transactions, where the first one begins that is open."""
        if not self._committed:
            return log.end_offset
        table = self._transactions[topic, partition] = log.transactions()
        first_open = table.first_open_offset()
        return log.end_offset if first_open is None else max(log.start_offset, min(first_open, log.end_offset))

    def find(self, topic: TopicExtent, positions: Mapping[int, Position]) -> dict[int, int]:
        found = {}
        for partition, position in positions.items():
            offset = self._logs[topic.name, partition].offset_for_time(position.value)
            found[partition] = min(offset, topic.latest[partition])
        return found

    def completed(self, piece: Slice) -> Slice:
        log = self._logs[piece.topic, piece.partition]
        table = self._transactions.get((piece.topic, piece.partition))
        aborted = table.aborted_within(piece.start, piece.stop) if table is not None else []
        return piece._replace(
            log=str(log.directory.relative_to(self._root / LOGS)),
            aborted=tuple((each.producer_id, each.first_offset) for each in aborted),
        )

    def close(self) -> None:
        for log in self._logs.values():
            log.forget_files()

    def _metadata(self) -> MetadataState:
        state = MetadataState()
        replay_journal(
            self._root,
            METADATA_LOG,
            restore=state.restore,
            apply=lambda record: state.apply(_EVENT.decode(record)),
        )
        return state
