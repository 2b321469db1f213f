"""A data directory: its topics, its groups and its logs, as they are now."""

from collections.abc import Collection
from pathlib import Path

from quiver.cluster.placement import GROUP_SHARDS
from quiver.coordination.events import CODEC
from quiver.coordination.local import LOG_ID as COORDINATION_LOG
from quiver.coordination.port import Change
from quiver.coordination.state import CoordinationState
from quiver.groups.events import GROUPS
from quiver.groups.events import event_of as group_event
from quiver.groups.table import GroupTable
from quiver.model.errors import InvalidRequest, TopicNotFound
from quiver.model.names import TopicPartition
from quiver.model.topic import Topic
from quiver.reader.commit_history import CommitHistory
from quiver.reader.delivery_history import Acknowledged
from quiver.reader.journal import kept_records, replay_journal
from quiver.reader.log_reader import LogReader
from quiver.reader.removed_dead_letters import RemovedDeadLetters
from quiver.streams.journal.shard import shard_log_id
from quiver.structures.interval_set import IntervalSet
from quiver.topics.events import TOPICS
from quiver.topics.events import event_of as topic_event
from quiver.topics.state import CatalogueState

DELIVERY_JOURNAL = "delivery"
PARTITION_JOURNALS = (DELIVERY_JOURNAL, "schedule", "timers")
"""The logs that a partition has in addition to its messages."""
_LOGS = "logs"
_CLUSTER_MARK = "cluster.json"
_NAMED = 10


class DataDirectory:
    """Raises InvalidRequest if there is no data directory of a broker at the path."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        if not (self.path / _LOGS).is_dir():
            raise InvalidRequest(problem=f"there is no data directory of a broker in {self.path}")

    @property
    def is_of_cluster(self) -> bool:
        """Whether it is that of a node of a cluster: topics and groups are in etcd."""
        return (self.path / _CLUSTER_MARK).exists()

    def topics(self) -> dict[str, Topic]:
        """All topics, by name. Raises InvalidRequest for a node of a cluster."""
        if self.is_of_cluster:
            raise InvalidRequest(
                problem=f"{self.path} is the data directory of a node of a cluster, and its files do not say which"
                " messages are committed: read through the brokers"
            )
        state = CatalogueState()
        for change in self._stored(TOPICS):
            state.apply(topic_event(change))
        return {topic.name: topic for topic in sorted(state.topics.values(), key=lambda topic: topic.name)}

    def topic(self, name: str) -> Topic:
        topics = self.topics()
        if name not in topics:
            known = ", ".join(list(topics)[:_NAMED]) or "none"
            raise TopicNotFound(f"there is no topic {name!r} in {self.path}; there are {known}", topic=name)
        return topics[name]

    def group_names(self) -> dict[int, str]:
        """The consumer groups, by id."""
        table = GroupTable()
        for change in self._stored(GROUPS):
            table.apply(group_event(change))
        return table.names

    def _stored(self, prefix: str) -> list[Change]:
        """The keys of coordination that begin with a prefix."""
        state = CoordinationState()

        def apply(record: bytes) -> None:
            state.apply(CODEC.decode(record))

        replay_journal(self.log(COORDINATION_LOG), restore=state.restore, apply=apply)
        return [Change(*item) for item in state.range(prefix).items]

    def stream_commits(self, groups: Collection[int] | None = None) -> dict[TopicPartition, list[Acknowledged]]:
        """What stream groups committed in each partition, as far back as their journal goes; of some groups, or
        all."""
        history = CommitHistory(groups)
        for shard in range(GROUP_SHARDS):
            if self.has_log(shard_log_id(shard)):
                for record in kept_records(self.log(shard_log_id(shard))):
                    history.apply_record(record)
        return history.commits

    def removed_dead_letters(self, topic_id: int, partition: int) -> IntervalSet:
        """The offsets of a partition of a dead-letter topic that were redriven or purged.

        Raises CorruptData if the files are not complete.
        """
        log_id = partition_log(topic_id, partition, DELIVERY_JOURNAL)
        removed = RemovedDeadLetters()
        if self.has_log(log_id):
            replay_journal(self.log(log_id), restore=removed.restore, apply=removed.apply)
        return removed.offsets

    def has_log(self, log_id: str) -> bool:
        return self.log_directory(log_id).is_dir()

    def log(self, log_id: str, name: str | None = None) -> LogReader:
        """A log; errors call it by `name`. It is empty until it is refreshed."""
        return LogReader(self.log_directory(log_id), name or log_id)

    def log_directory(self, log_id: str) -> Path:
        return self.path / _LOGS / log_id


def partition_log(topic_id: int, partition: int, journal: str | None = None) -> str:
    """The id of the log of a partition's messages, or of one of its journals."""
    return f"topics/{topic_id}/{partition}" + (f"-{journal}" if journal else "")
