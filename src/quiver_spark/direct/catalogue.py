"""The topics of a data directory, read without its broker."""

from collections.abc import Mapping

from quiver.model.errors import InvalidRequest
from quiver.model.position import Position
from quiver.reader.data_directory import PARTITION_JOURNALS, DataDirectory, partition_log
from quiver.reader.log_reader import LogReader
from quiver.reader.stored_transactions import StoredTransactions
from quiver_spark.source.catalogue import TopicExtent, TopicFacts
from quiver_spark.source.options import ReadOptions
from quiver_spark.source.slices import Slice


class DirectCatalogue:
    """Raises InvalidRequest if the options name no data directory, or a log that it does not have."""

    def __init__(self, options: ReadOptions) -> None:
        assert options.path is not None
        self._directory = DataDirectory(options.path)
        self._internal = options.internal
        if self._internal is not None:
            self._check_internal(self._internal)
        self._committed = options.committed and self._internal is None
        self._logs: dict[tuple[str, int], tuple[str, LogReader]] = {}
        """By topic and partition: the id of the log, and its reader."""
        self._transactions: dict[tuple[str, int], StoredTransactions] = {}

    def _check_internal(self, name: str) -> None:
        if "/" in name:
            if not self._directory.has_log(name):
                problem = f"there is no log {name} in {self._directory.path}"
                raise InvalidRequest(problem=f"option 'internal': {problem}")
        elif name not in PARTITION_JOURNALS:
            problem = f"{name!r} is neither a log such as internal/coordination nor one of {PARTITION_JOURNALS}"
            raise InvalidRequest(problem=f"option 'internal': {problem}")

    def names(self) -> list[str]:
        return list(self._directory.topics())

    def facts(self, name: str) -> TopicFacts:
        topic = self._directory.topic(name)
        return TopicFacts(topic.config.is_compacted, topic.config.durability == "memory", topic.created_at_ms)

    def extent(self, name: str) -> TopicExtent:
        if self._internal is not None and "/" in self._internal:
            log_ids, topic_id = [self._internal], 0
        else:
            topic = self._directory.topic(name)
            topic_id, numbers = topic.id, range(topic.config.partitions)
            log_ids = [partition_log(topic_id, number, self._internal) for number in numbers]
        logs = [self._refreshed(name, number, log_id) for number, log_id in enumerate(log_ids)]
        latest = [self._latest(name, number, log) for number, log in enumerate(logs)]
        earliest = [min(log.start_offset, end) for log, end in zip(logs, latest, strict=True)]
        return TopicExtent(name, topic_id, earliest, latest, sum(log.size_bytes for log in logs))

    def _refreshed(self, topic: str, partition: int, log_id: str) -> LogReader:
        known_id, log = self._logs.get((topic, partition), (None, None))
        if log is None or known_id != log_id:
            log = self._directory.log(log_id, f"{topic}-{partition}")
            self._logs[topic, partition] = log_id, log
        log.refresh()
        return log

    def _latest(self, topic: str, partition: int, log: LogReader) -> int:
        """The offset after the last message that may be read."""
        if not self._committed:
            return log.end_offset
        transactions = self._transactions[topic, partition] = StoredTransactions(log)
        return transactions.committed_end

    def log(self, topic: str, partition: int) -> LogReader:
        """The log of a partition as it was at the last call of `extent`."""
        return self._logs[topic, partition][1]

    def find(self, topic: TopicExtent, positions: Mapping[int, Position]) -> dict[int, int]:
        return {
            partition: min(self.log(topic.name, partition).offset_for_time(position.value), topic.latest[partition])
            for partition, position in positions.items()
        }

    def completed(self, slice_: Slice) -> Slice:
        place = slice_.topic, slice_.partition
        transactions = self._transactions.get(place)
        aborted = () if transactions is None else transactions.aborted(slice_.start, slice_.stop)
        return slice_._replace(log=self._logs[place][0], aborted=aborted)

    def close(self) -> None:
        for _, log in self._logs.values():
            log.close()
