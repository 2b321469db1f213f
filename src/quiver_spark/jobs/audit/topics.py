"""The topics of an audit: the ranges of their partitions, and the settings that explain gaps."""

from typing import NamedTuple

from quiver.model.errors import InvalidRequest
from quiver.model.position import LATEST, Position
from quiver_spark.source.catalogue import Catalogue, TopicExtent, TopicFacts, chosen_extents, resolve
from quiver_spark.source.options import ReadOptions


class AuditedTopic(NamedTuple):
    """A topic and the offsets of each partition that the audit is about, within what there is."""

    extent: TopicExtent
    facts: TopicFacts
    ranges: tuple[tuple[int, int], ...]

    @property
    def name(self) -> str:
        return self.extent.name


def audited_topics(catalogue: Catalogue, options: ReadOptions) -> list[AuditedTopic]:
    if options.internal is not None:
        raise InvalidRequest(problem="an audit is about topics; leave 'internal' out")
    topics = chosen_extents(catalogue, options)
    if not topics:
        raise InvalidRequest(problem=f"no topic matches {options.pattern!r}")
    return [_audited(catalogue, topic, options) for topic in topics]


def _audited(catalogue: Catalogue, extent: TopicExtent, options: ReadOptions) -> AuditedTopic:
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
