"""The topics of an audit: where their partitions begin and end, and what their settings explain."""

from typing import NamedTuple, Protocol

from quiver.model.errors import InvalidRequest, TopicNotFound
from quiver.model.position import LATEST, Position
from quiver_spark.direct.catalogue import DirectCatalogue
from quiver_spark.direct.log import DirectLog
from quiver_spark.source.broker_catalogue import BrokerCatalogue
from quiver_spark.source.catalogue import Catalogue, TopicExtent, chosen_extents, resolve
from quiver_spark.source.options import ReadOptions


class TopicFacts(NamedTuple):
    is_compacted: bool
    in_memory: bool
    created_at_ms: int


class AuditCatalogue(Catalogue, Protocol):
    def facts(self, name: str) -> TopicFacts: ...


class DirectTopics(DirectCatalogue):
    def facts(self, name: str) -> TopicFacts:
        topic = self._metadata().by_name(name)
        if topic is None:
            raise TopicNotFound(topic=name)
        config = topic.config
        return TopicFacts(config.is_compacted, config.durability == "memory", topic.created_at_ms)

    def log(self, topic: str, partition: int) -> DirectLog:
        """The log of a partition as it was when `extent` was asked for."""
        return self._logs[topic, partition]


class BrokerTopics(BrokerCatalogue):
    def facts(self, name: str) -> TopicFacts:
        topic = self._topics.describe(name)
        cleanup, durability = topic.settings["cleanup"], topic.settings["durability"]
        return TopicFacts("compact" in cleanup, durability == "memory", topic.created_at_ms)


def open_topics(options: ReadOptions) -> DirectTopics | BrokerTopics:
    return BrokerTopics(options) if options.path is None else DirectTopics(options)


class AuditedTopic(NamedTuple):
    """A topic and the offsets of each partition that the audit is about, within what there is."""

    extent: TopicExtent
    facts: TopicFacts
    ranges: tuple[tuple[int, int], ...]

    @property
    def name(self) -> str:
        return self.extent.name


def audited_topics(catalogue: AuditCatalogue, options: ReadOptions) -> list[AuditedTopic]:
    if options.internal is not None:
        raise InvalidRequest(problem="an audit is about topics; leave 'internal' out")
    topics = chosen_extents(catalogue, options)
    if not topics:
        raise InvalidRequest(problem=f"no topic matches {options.pattern!r}")
    return [_audited(catalogue, topic, options) for topic in topics]


def _audited(catalogue: AuditCatalogue, extent: TopicExtent, options: ReadOptions) -> AuditedTopic:
    numbers = range(len(extent.earliest))
    starts = resolve(catalogue, extent, {number: options.start.at(extent.name, number) for number in numbers})
    places: dict[int, Position] = {
        number: options.end.at(extent.name, number) if options.end else LATEST for number in numbers
    }
    ends = resolve(catalogue, extent, places)
    ranges = []
    for number in numbers:
        start = max(starts[number], extent.earliest[number])
        ranges.append((start, max(start, min(ends[number], extent.latest[number]))))
    return AuditedTopic(extent, catalogue.facts(extent.name), tuple(ranges))
